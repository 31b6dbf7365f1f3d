"""Abort and GetServerInfo over the wire, at a decoder whose steps wait for the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from decoder_process import ended_after, start_decoder
from polling import poll
from stepped_trie import SteppedTrie, stepped_trie

from decoder_service import __version__
from decoder_service.client import Client, Drafts, FinishReason, InvalidRequest, Lookahead, Stop

ENDLESS = Stop(max_tokens=2000, ignore_eos=True)
HELD = Drafts(sources=("index",), learn=False)


@pytest.fixture(scope="module")
def index() -> Iterator[SteppedTrie]:
    with stepped_trie() as servicer:
        yield servicer


@pytest.fixture(scope="module")
def narrow(model_folder: Path, index: SteppedTrie) -> Iterator[Client]:
    """A client of a decoder that runs one request at a time."""
    process = start_decoder(
        model_folder, trie=index.address, max_streams=1, max_queue=3, draft_deadline_ms=10_000
    )
    with ended_after(process), Client(process.address) as client:
        poll(lambda: client.generate("x", stop=Stop(max_tokens=1), drafts=HELD).result().warnings == ())
        yield client


def test_abort_ends_what_runs_and_what_waits_and_the_figures_follow(
    narrow: Client, index: SteppedTrie
) -> None:
    poll(lambda: narrow.server_info().num_cache_positions_used == 0)
    index.hold()
    runs = narrow.generate("the model reads", stop=ENDLESS, drafts=HELD)
    assert index.next_asked()
    next(runs)
    waits = narrow.generate("a draft is", stop=ENDLESS, drafts=HELD)
    poll(lambda: narrow.server_info().num_waiting == 1)
    busy = narrow.server_info()
    assert (busy.num_running, busy.max_streams, busy.max_queue) == (1, 1, 3)
    assert 2000 < busy.num_cache_positions_used <= busy.num_cache_positions
    assert [narrow.abort(stream.request_id) for stream in (runs, waits)] == [1, 1]
    index.go_on()
    first, second = runs.result(), waits.result()
    assert [first.finish_reason, second.finish_reason] == [FinishReason.ABORTED] * 2
    assert first.usage.num_output_tokens == len(first.token_ids) > 0
    assert first.drafts.num_steps == len(first.steps)
    assert second.token_ids == ()
    poll(lambda: narrow.server_info().num_running == 0)
    assert narrow.server_info().num_cache_positions_used == 0
    assert narrow.abort(runs.request_id) == 0


def test_the_server_says_what_it_allows(narrow: Client) -> None:
    info = narrow.server_info()
    assert info.version == __version__
    assert info.sources == ("own", "lookahead", "index")
    assert (info.draft_nodes, info.lookahead) == (24, Lookahead(5, 3, 5))
    assert list(info.step_costs_ms) == sorted(info.step_costs_ms)
    assert all(milliseconds > 0 for milliseconds in info.step_costs_ms.values())
    assert len(info.step_costs_ms) > 1
    assert narrow.server_info().uptime_s > info.uptime_s > 0


def test_more_continuations_than_are_taken_at_once_are_refused(narrow: Client) -> None:
    with pytest.raises(InvalidRequest, match="n 4 is more than the 3 requests that are taken at once"):
        narrow.generate("x", n=4).results()


def test_abort_without_a_name_is_refused(narrow: Client) -> None:
    with pytest.raises(InvalidRequest, match="request_id is empty"):
        narrow.abort("")
