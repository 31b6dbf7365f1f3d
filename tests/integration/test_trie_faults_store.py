"""Redis killed, emptied, paused and full: drafts never stop, and nothing acknowledged is lost while it keeps its data.

``DRAFTWELL_TEST_PAUSE_S`` makes the pause longer than the two seconds that suffice to be noticed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import grpc
import pytest
from draftwell.trie.v1 import trie_pb2 as pb
from trie_processes import Replica, Valkey, until
from trie_processes import status_of as status

SERVING = pb.SERVING_STATE_SERVING
DEGRADED = pb.SERVING_STATE_DEGRADED
PAUSE_S = float(os.environ.get("DRAFTWELL_TEST_PAUSE_S", "4"))
SLOWEST_DRAFT_S = 1.0  # on a machine that many tests share
FAST = {"snapshot_keep_s": 0, "snapshot_lease_s": 0.5, "snapshot_interval_s": 3600}


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    with Valkey(tmp_path / "data") as server:
        yield server


class Drafting:
    """Asks for one draft after the other, beside the test."""

    def __init__(self, replica: Replica, context: int, expected: list[int]) -> None:
        self._replica = replica
        self._context, self._expected = context, expected
        self._is_over = threading.Event()
        self.num_answers = 0
        self.slowest_s = 0.0
        self.wrong: list[list[int]] = []

    def run(self) -> None:
        while not self._is_over.is_set():
            started = monotonic()
            found = self._replica.suggest("chat", self._context)
            self.slowest_s = max(self.slowest_s, monotonic() - started)
            self.num_answers += 1
            if found != self._expected:
                self.wrong.append(found)

    def stop(self) -> None:
        self._is_over.set()


@contextmanager
def drafting(replica: Replica, context: int, expected: list[int]) -> Iterator[None]:
    """Within, every draft is right and none is slow."""
    drafts = Drafting(replica, context, expected)
    thread = threading.Thread(target=drafts.run)
    thread.start()
    try:
        yield
    finally:
        drafts.stop()
        thread.join()
    assert drafts.wrong == []
    assert drafts.num_answers > 0
    assert drafts.slowest_s < SLOWEST_DRAFT_S


class Learning:
    """Learns pair after pair with names of their own, each until it is acknowledged, beside the test."""

    def __init__(self, replicas: list[Replica]) -> None:
        self._replicas = replicas
        self._is_over = threading.Event()
        self.num_acknowledged = 0
        self.num_refused = 0

    def run(self) -> None:
        while not self._is_over.is_set():
            number = self.num_acknowledged
            replica = self._replicas[(number + self.num_refused) % len(self._replicas)]
            try:
                replica.learn_named("chat", {f"pair {number}": [number, number + 1_000_000]})
            except grpc.RpcError:
                self.num_refused += 1
                continue
            self.num_acknowledged += 1

    def stop(self) -> None:
        self._is_over.set()


@contextmanager
def learning(*replicas: Replica) -> Iterator[Learning]:
    pairs = Learning(list(replicas))
    thread = threading.Thread(target=pairs.run)
    thread.start()
    try:
        yield pairs
    finally:
        pairs.stop()
        thread.join()


def lost(replica: Replica, num_pairs: int) -> list[int]:
    """Pairs that a replica does not draft."""
    return [number for number in range(num_pairs) if replica.suggest("chat", number) != [number + 1_000_000]]


def converge(*replicas: Replica) -> None:
    """Wait until all hold the same."""
    until(lambda: len({replica.digest("chat") for replica in replicas}) == 1)


def test_what_is_repeated_after_a_kill_of_a_replica_counts_once(valkey: Valkey) -> None:
    with Replica("--redis", valkey.url) as stays:
        with Replica("--redis", valkey.url) as killed, learning(killed, stays) as pairs:
            until(lambda: pairs.num_acknowledged >= 100)
            killed.kill()
            until(lambda: pairs.num_refused > 0)
            after = pairs.num_acknowledged
            until(lambda: pairs.num_acknowledged >= after + 20)
        assert lost(stays, pairs.num_acknowledged) == []
        with Replica("--redis", valkey.url) as late:
            converge(stays, late)
            assert late.num_sequences("chat") == pairs.num_acknowledged


def test_a_kill_of_redis_while_learning_loses_nothing_and_replicas_agree(valkey: Valkey) -> None:
    with Replica("--redis", valkey.url) as one, Replica("--redis", valkey.url) as other:
        one.learn("chat", [7_000_000, 7_000_001])
        until(lambda: other.suggest("chat", 7_000_000) == [7_000_001])
        with drafting(other, 7_000_000, [7_000_001]), learning(one, other) as pairs:
            until(lambda: pairs.num_acknowledged >= 100)
            valkey.kill()
            until(lambda: one.state() == other.state() == DEGRADED)
            until(lambda: pairs.num_refused > 0)
            valkey.start()
            until(lambda: one.state() == other.state() == SERVING)
            after = pairs.num_acknowledged
            until(lambda: pairs.num_acknowledged >= after + 50)
        converge(one, other)
        assert lost(other, pairs.num_acknowledged) == []
        assert other.num_sequences("chat") == pairs.num_acknowledged + 1
        for replica in (one, other):
            assert replica.log.count("store lost") == replica.log.count("store is back") == 1


def test_a_redis_that_comes_back_empty_is_filled_from_memory(valkey: Valkey) -> None:
    with (
        Replica("--redis", valkey.url, settings=FAST) as one,
        Replica("--redis", valkey.url, settings=FAST) as other,
    ):
        one.learn("chat", [1, 2, 3], [7, 8])
        until(lambda: other.num_sequences("chat") == one.num_sequences("chat") == 2)
        with drafting(one, 1, [2, 3]), drafting(other, 1, [2, 3]):
            valkey.kill()
            until(lambda: one.state() == other.state() == DEGRADED)
            valkey.erase()
            valkey.start()
            until(lambda: one.state() == other.state() == SERVING)
        other.learn("chat", [4, 5])
        until(lambda: one.suggest("chat", 4) == other.suggest("chat", 4) == [5])
        converge(one, other)
        with Replica("--redis", valkey.url) as late:
            assert late.suggest("chat", 1) == [2, 3]
            assert late.suggest("chat", 4) == [5]
            converge(one, late)


def test_a_redis_that_lost_its_newest_writes_gets_them_from_memory_and_loses_no_later_ones(
    valkey: Valkey,
) -> None:
    with (
        Replica("--redis", valkey.url, settings=FAST) as one,
        Replica("--redis", valkey.url, settings=FAST) as other,
    ):
        one.learn("chat", [1, 2, 3])
        valkey.keep_copy()
        one.learn("chat", [4, 5], [6, 7])
        one.learn("late", [8, 9])
        until(lambda: other.num_sequences("chat") == 3 and other.suggest("late", 8) == [9])
        with drafting(other, 1, [2, 3]):
            valkey.kill()
            valkey.go_back()
            valkey.start()
            until(lambda: one.state() == other.state() == SERVING)
            one.learn("chat", [10, 11])
            until(lambda: one.suggest("chat", 10) == other.suggest("chat", 10) == [11])
            until(lambda: valkey.client().hget("dw:{chat}:meta", "snap_ms") is not None)
        other.learn("chat", [12, 13])
        converge(one, other)
        with Replica("--redis", valkey.url) as late:
            for first in (4, 6, 10, 12):
                assert late.suggest("chat", first) == other.suggest("chat", first) == [first + 1]
            assert late.suggest("late", 8) == other.suggest("late", 8) == [9]
            converge(one, late)


def test_a_redis_emptied_under_way_is_filled_from_memory(valkey: Valkey) -> None:
    with Replica("--redis", valkey.url, settings=FAST) as one:
        one.learn("chat", [1, 2, 3])
        until(lambda: one.suggest("chat", 1) == [2, 3])
        with valkey.client() as client, drafting(one, 1, [2, 3]):
            client.flushall()
            until(lambda: "the store was emptied" in one.log)
            one.learn("chat", [4, 5])
            until(lambda: one.suggest("chat", 4) == [5])
        with Replica("--redis", valkey.url) as late:
            assert late.suggest("chat", 1) == [2, 3]
            converge(one, late)
        assert one.log.count("the store was emptied") == 1


def test_while_redis_is_paused_drafts_go_on_and_learning_says_so(valkey: Valkey) -> None:
    with Replica("--redis", valkey.url) as one, Replica("--redis", valkey.url) as other:
        one.learn("chat", [7_000_000, 7_000_001])
        until(lambda: other.suggest("chat", 7_000_000) == [7_000_001])
        with drafting(other, 7_000_000, [7_000_001]), learning(one, other) as pairs:
            until(lambda: pairs.num_acknowledged >= 20)
            valkey.pause()
            paused_from = monotonic()
            until(lambda: one.state() == other.state() == DEGRADED)
            with pytest.raises(grpc.RpcError) as caught:
                one.learn("chat", [1, 2])
            assert status(caught.value) is grpc.StatusCode.UNAVAILABLE
            until(lambda: monotonic() - paused_from >= PAUSE_S)
            valkey.resume()
            until(lambda: one.state() == other.state() == SERVING)
            after = pairs.num_acknowledged
            until(lambda: pairs.num_acknowledged >= after + 20)
        converge(one, other)
        assert lost(other, pairs.num_acknowledged) == []
        assert other.num_sequences("chat") == pairs.num_acknowledged + 1
        for replica in (one, other):
            assert replica.log.count("store lost") == replica.log.count("store is back") == 1


def test_while_redis_is_full_drafts_go_on_and_learning_says_so(valkey: Valkey) -> None:
    with Replica("--redis", valkey.url) as one, Replica("--redis", valkey.url) as other:
        one.learn("chat", [1, 2, 3])
        until(lambda: other.suggest("chat", 1) == [2, 3])
        with valkey.client() as client, drafting(other, 1, [2, 3]):
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", "1")
            for _ in range(20):
                with pytest.raises(grpc.RpcError) as caught:
                    one.learn("chat", [4, 5])
                assert status(caught.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
                assert "is full" in str(caught.value.details())
            with pytest.raises(grpc.RpcError) as caught:
                one.write_snapshot("chat")
            assert status(caught.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert one.state() == other.state() == SERVING
            client.config_set("maxmemory", "0")
            one.learn("chat", [4, 5])
            until(lambda: other.suggest("chat", 4) == [5])
        assert one.write_snapshot("chat").num_bytes > 0
        assert one.log.count("store is full") == one.log.count("store has room again") == 1
