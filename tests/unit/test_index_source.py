from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from draftwell.trie.v1 import trie_pb2
from fake_trie import RunningTrie

from decoder_service.circuit_breaker import CircuitBreaker
from decoder_service.draft import DraftAsk, DraftTree
from decoder_service.drafts.index import IndexConfig, IndexSource, tree_of
from decoder_service.index_channel import open_index_channel

ASK = DraftAsk(1, np.arange(50, dtype=np.int32), max_nodes=9, namespace="tenant")


@pytest.fixture
def trie() -> Iterator[RunningTrie]:
    running = RunningTrie()
    yield running
    running.kill()


@pytest.fixture
def source(trie: RunningTrie) -> Iterator[IndexSource]:
    yield from sources(trie, deadline_s=1.0)


@pytest.fixture
def impatient_source(trie: RunningTrie) -> Iterator[IndexSource]:
    yield from sources(trie, deadline_s=0.02)


def sources(trie: RunningTrie, deadline_s: float) -> Iterator[IndexSource]:
    channel = open_index_channel(trie.target)
    config = IndexConfig(fingerprint="f00d", vocab_size=100, deadline_s=deadline_s)
    breaker = CircuitBreaker(max_failures=2, first_pause_s=0.05, longest_pause_s=0.2)
    source = IndexSource(channel, config, breaker)
    wait_until(lambda: source.status == "ready")
    yield source
    source.stop()
    channel.close()


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.005)


def draft(source: IndexSource, *asks: DraftAsk) -> list[DraftTree]:
    source.begin(asks)
    return source.collect()


def test_a_batch_is_one_message_with_the_newest_tokens_of_each_text(
    trie: RunningTrie, source: IndexSource
) -> None:
    trees = draft(source, ASK, DraftAsk(2, np.array([5], dtype=np.int32), 4, "other"))
    assert [tree.tokens.tolist() for tree in trees] == [[7, 8], [7, 8]]
    assert trees[0].parents.tolist() == [-1, 0]
    assert (trees[0].orders.tolist(), trees[0].counts.tolist(), trees[0].totals.tolist()) == (
        [3, 4],
        [2, 2],
        [5, 2],
    )
    (request,) = trie.service.draft_requests
    first, second = request.queries
    assert list(first.context) == list(range(18, 50))
    assert (first.namespace.name, first.namespace.fingerprint) == ("tenant", "f00d")
    assert first.limits.max_nodes == 9
    assert list(second.context) == [5]
    assert 0 < source.last_wait_ms < 1000


def test_no_asks_send_no_message(trie: RunningTrie, source: IndexSource) -> None:
    assert draft(source) == []
    draft(source, ASK)
    assert len(trie.service.draft_requests) == 1


def test_an_absent_service_costs_no_wait_and_is_named() -> None:
    channel = open_index_channel("127.0.0.1:1")
    source = IndexSource(channel, IndexConfig("f00d", 100, deadline_s=5.0))
    (tree,) = draft(source, ASK)
    assert len(tree) == 0
    assert source.last_wait_ms == 0.0
    wait_until(lambda: "unreachable" in source.warning("tenant"))
    source.stop()


def test_a_late_answer_is_dropped_and_the_next_one_taken(
    trie: RunningTrie, impatient_source: IndexSource
) -> None:
    trie.service.answers_may_leave.clear()
    (late,) = draft(impatient_source, ASK)
    assert len(late) == 0
    assert impatient_source.last_wait_ms < 1000
    trie.service.answers_may_leave.set()
    wait_until(lambda: len(draft(impatient_source, ASK)[0]) == 2)


def test_a_slow_service_is_soon_asked_no_more_and_heals(
    trie: RunningTrie, impatient_source: IndexSource
) -> None:
    trie.service.answers_may_leave.clear()
    draft(impatient_source, ASK)
    draft(impatient_source, ASK)
    assert impatient_source.status != "ready"
    assert impatient_source.warning("tenant").startswith("no drafts from the index")
    draft(impatient_source, ASK)
    assert impatient_source.last_wait_ms == 0.0
    trie.service.answers_may_leave.set()
    wait_until(lambda: len(draft(impatient_source, ASK)[0]) == 2)
    assert impatient_source.warning("tenant") == ""


def test_a_stream_that_stays_silent_is_given_up_for_another(
    trie: RunningTrie, impatient_source: IndexSource
) -> None:
    trie.service.answers_may_leave.clear()

    def another_stream() -> bool:
        draft(impatient_source, ASK)
        return trie.service.num_streams >= 2

    wait_until(another_stream)


def test_a_service_killed_while_asked_gives_an_empty_draft_at_once(
    trie: RunningTrie, source: IndexSource
) -> None:
    trie.service.answers_may_leave.clear()
    source.begin([ASK])
    wait_until(lambda: len(trie.service.draft_requests) == 1)
    trie.service.answer.draft.Clear()
    trie.kill()
    assert [len(tree) for tree in source.collect()] == [0]


def test_a_restarted_service_drafts_again(trie: RunningTrie, source: IndexSource) -> None:
    trie.kill()
    wait_until(lambda: source.status != "ready")
    assert [len(tree) for tree in draft(source, ASK)] == [0]
    trie.start()
    wait_until(lambda: len(draft(source, ASK)[0]) == 2)


def test_an_error_of_one_namespace_is_a_warning_and_no_failure_of_the_service(
    trie: RunningTrie, source: IndexSource
) -> None:
    healthy = trie_pb2.DraftAnswer()
    healthy.CopyFrom(trie.service.answer)
    trie.service.answer.error.code = 9
    trie.service.answer.error.message = "fingerprint f00d is not c0de"
    for _ in range(5):
        assert [len(tree) for tree in draft(source, ASK)] == [0]
    assert source.status == "ready"
    assert "f00d is not c0de" in source.warning("tenant")
    assert source.warning("other") == ""
    trie.service.answer.CopyFrom(healthy)
    assert [len(tree) for tree in draft(source, ASK)] == [2]
    assert source.warning("tenant") == ""


def test_an_unknown_namespace_is_no_warning_to_a_request_that_creates_it(
    trie: RunningTrie, source: IndexSource
) -> None:
    trie.service.answer.error.code = 5
    trie.service.answer.error.message = "namespace 'tenant' does not exist"
    assert [len(tree) for tree in draft(source, ASK)] == [0]
    assert source.warning("tenant") == "no drafts from the index: namespace 'tenant' does not exist"
    assert source.warning("tenant", learns=True) == ""


def test_a_malformed_draft_is_refused_with_a_warning(trie: RunningTrie, source: IndexSource) -> None:
    trie.service.answer.draft.tokens[1] = 100
    assert [len(tree) for tree in draft(source, ASK)] == [0]
    assert "token 100" in source.warning("tenant")


def test_one_stream_serves_every_step_in_order(trie: RunningTrie, source: IndexSource) -> None:
    for _ in range(50):
        assert len(draft(source, ASK)[0]) == 2
    assert [request.id for request in trie.service.draft_requests] == list(range(1, 51))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"tokens": [1]}, "lengths"),
        ({"parents": [-1, 1]}, "parent"),
        ({"parents": [-2, 0]}, "parent"),
        ({"tokens": [1, 4_000_000_000]}, "outside the vocabulary"),
    ],
)
def test_what_is_no_tree_is_refused(change: dict[str, list[int]], complaint: str) -> None:
    columns = {
        "tokens": [1, 2],
        "parents": [-1, 0],
        "match_orders": [1, 2],
        "counts": [1, 1],
        "totals": [1, 1],
    }
    with pytest.raises(ValueError, match=complaint):
        tree_of(trie_pb2.DraftTree(**(columns | change)), vocab_size=100)


def test_huge_counts_are_clipped() -> None:
    draft = trie_pb2.DraftTree(
        tokens=[1], parents=[-1], match_orders=[1], counts=[2**32 - 1], totals=[2**32 - 1]
    )
    assert tree_of(draft, vocab_size=2).counts.tolist() == [2**31 - 1]
