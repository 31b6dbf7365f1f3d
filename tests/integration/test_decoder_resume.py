"""Streams that outlive their decoder: killed, stopped or taken away, the client goes on elsewhere unnoticed.

The decoder that dies waits for a trie service that answers when the test lets it, so that it dies in mid-stream.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from decoder_process import ServiceProcess, ended_after, start_decoder
from grpc_health.v1 import health_pb2, health_pb2_grpc
from polling import poll
from stepped_trie import SteppedTrie, stepped_trie

from decoder_service.client import Client, Drafts, FinishReason, Generation, Sampling, Step, Stop

NUM_STREAMS = 8
MAX_TOKENS = 240
HELD = Drafts(sources=("own", "index"), learn=False)
HOLDING_BACK = tuple(f"{end} is never said" for end in "eat �")  # text that ends so waits for the next token


@dataclass
class Reader:
    """Reads one stream on a thread of its own."""

    wanted: dict[str, object]
    seen: list[Step] = field(default_factory=list)

    def read(self, client: Client, drafts: Drafts) -> tuple[Generation, ...]:
        stream = client.generate(**self.wanted, drafts=drafts)  # type: ignore[arg-type]
        for step in stream:
            self.seen.append(step)
        return stream.results()


@pytest.fixture
def index() -> Iterator[SteppedTrie]:
    with stepped_trie() as servicer:
        yield servicer


@pytest.fixture
def doomed(model_folder: Path, index: SteppedTrie) -> Iterator[ServiceProcess]:
    """A decoder whose steps the test can hold."""
    process = start_decoder(model_folder, trie=index.address, draft_deadline_ms=10_000, stop_grace_s=0)
    with ended_after(process), Client(process.address) as client:
        poll(lambda: client.generate("x", stop=Stop(max_tokens=1), drafts=HELD).result().warnings == ())
        index.hold()
        yield process


def wanted(number: int) -> dict[str, object]:
    """Requests of every kind: greedy and sampled, some whose text is held back."""
    sampling = Sampling(temperature=0.9, top_p=0.95, seed=number) if number % 2 else None
    strings = HOLDING_BACK if number % 4 >= 2 else ()
    stop = Stop(max_tokens=MAX_TOKENS, ignore_eos=True, strings=strings)
    return {"prompt": f"déjà {number} the model reads", "sampling": sampling, "stop": stop}


def undisturbed(client: Client, each: dict[str, object]) -> tuple[Generation, ...]:
    return client.generate(**each, drafts=Drafts.none()).results()  # type: ignore[arg-type]


def step_until(index: SteppedTrie, condition: Callable[[], bool]) -> None:
    """Let the held decoder run, a step at a time."""
    while not condition():
        index.next_asked()
        index.allow()


def assert_unbroken(found: Generation, plain: Generation) -> None:
    assert found.token_ids == plain.token_ids
    assert found.text == plain.text
    assert "".join(step.text for step in found.steps) == plain.text
    assert found.finish_reason == plain.finish_reason
    assert found.usage == plain.usage
    assert found.drafts.num_steps == sum(bool(step.token_ids) for step in found.steps)
    assert found.drafts.num_drafted == sum(step.num_drafted for step in found.steps)


def test_killing_one_of_two_decoders_under_eight_streams_changes_no_output(
    decoder: Client, doomed: ServiceProcess, index: SteppedTrie
) -> None:
    readers = [Reader(wanted(number)) for number in range(NUM_STREAMS)]
    plain = [undisturbed(decoder, reader.wanted) for reader in readers]
    orders = [
        (doomed.address, decoder.address) if n < 6 else (decoder.address, doomed.address) for n in range(8)
    ]
    clients = [Client(order) for order in orders]
    with ThreadPoolExecutor(NUM_STREAMS) as pool:
        results = [
            pool.submit(*job) for job in ((r.read, c, HELD) for r, c in zip(readers, clients, strict=True))
        ]
        step_until(index, lambda: all(len(reader.seen) >= 3 for reader in readers[:6]))
        doomed.kill()
        index.go_on()
        found = [result.result() for result in results]
    for (one,), (other,) in zip(found, plain, strict=True):
        assert_unbroken(one, other)
    assert [one.num_resumes > 0 for (one,) in found] == [number < 6 for number in range(NUM_STREAMS)]
    assert all(len(one.token_ids) == MAX_TOKENS for (one,) in found)
    for client in clients:
        client.close()


def test_several_continuations_survive_the_kill_of_their_decoder(
    decoder: Client, doomed: ServiceProcess, index: SteppedTrie
) -> None:
    reader = Reader(wanted(3) | {"n": 3, "logprobs": 2})
    plain = undisturbed(decoder, reader.wanted)
    with ThreadPoolExecutor(1) as pool, Client((doomed.address, decoder.address)) as client:
        result = pool.submit(reader.read, client, HELD)
        step_until(index, lambda: {step.index for step in reader.seen} == {0, 1, 2})
        doomed.kill()
        index.go_on()
        found = result.result()
    assert [one.token_ids for one in found] == [one.token_ids for one in plain]
    assert [one.text for one in found] == [one.text for one in plain]
    assert [one.logprobs for one in found] == [one.logprobs for one in plain]
    assert found[0].num_resumes == 1


def test_a_stream_that_a_stop_cuts_off_goes_on_at_the_other_decoder(
    decoder: Client, doomed: ServiceProcess, index: SteppedTrie
) -> None:
    reader = Reader(wanted(3))
    (plain,) = undisturbed(decoder, reader.wanted)
    with ThreadPoolExecutor(1) as pool, Client(f"{doomed.address},{decoder.address}") as client:
        result = pool.submit(reader.read, client, HELD)
        step_until(index, lambda: len(reader.seen) >= 2)
        doomed.send(signal.SIGTERM)
        poll(lambda: not serves(doomed.address))
        index.go_on()
        (found,) = result.result()
        assert doomed.wait() == 0
    assert_unbroken(found, plain)
    assert found.num_resumes == 1


def serves(address: str) -> bool:
    with grpc.insecure_channel(address) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def test_a_decoder_that_comes_back_at_its_address_continues_its_own_streams(
    model_folder: Path, decoder: Client, doomed: ServiceProcess, index: SteppedTrie
) -> None:
    reader = Reader(wanted(1))
    (plain,) = undisturbed(decoder, reader.wanted)
    with ThreadPoolExecutor(1) as pool, Client(doomed.address) as client:
        result = pool.submit(reader.read, client, HELD)
        step_until(index, lambda: len(reader.seen) >= 2)
        doomed.kill()
        index.go_on()
        again = start_decoder(model_folder, listen=doomed.address)
        with ended_after(again):
            (found,) = result.result()
    assert_unbroken(found, plain)
    assert found.num_resumes >= 1
    assert found.finish_reason is FinishReason.LENGTH
