"""Snapshots that are cut short, damaged, written twice or needed in a hurry; nothing is lost by it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from draftwell.trie.v1 import trie_pb2 as pb
from redis import Redis
from trie_processes import Replica, Valkey, until
from trie_processes import status_of as status

from trie_service.snapshot_codec import MAGIC

NEVER = {"snapshot_interval_s": 3600, "snapshot_keep_s": 0, "snapshot_lease_s": 0.5, "snapshot_grace_s": 3600}
EAGER = NEVER | {"snapshot_interval_s": 0.2, "snapshot_log_bytes": 0}
SEED = 11


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    with Valkey(tmp_path) as server:
        yield server


@pytest.fixture
def redis(valkey: Valkey) -> Iterator[Redis]:
    with valkey.client() as client:
        yield client


def num_in_log(redis: Redis) -> int:
    return sum(redis.xlen(key) for key in redis.scan_iter("dw:{chat}:log:*"))


def keys_of(redis: Redis, kind: str) -> list[bytes]:
    return sorted(redis.scan_iter(f"dw:{{chat}}:{kind}:*"))


def staged(redis: Redis) -> list[bytes]:
    return [key for key in keys_of(redis, "snap") if key.count(b":") == 4 and not key.endswith(b"rejected")]


def described(redis: Redis) -> list[bytes | None]:
    """What is said of the snapshot."""
    return redis.hmget("dw:{chat}:meta", "snap_ms", "snap_number", "snap_position", "snap_bytes", "lineage")


def held(replica: Replica) -> tuple[int, int, int]:
    """What a replica holds; a digest of much text takes long."""
    stats = replica.stub.GetNamespace(pb.GetNamespaceRequest(name="chat"), timeout=20).namespace.stats
    return stats.num_sequences, stats.num_tokens, stats.num_nodes


def write_quietly(replica: Replica, failures: list[grpc.RpcError]) -> threading.Thread:
    """Write a snapshot beside the test; it may fail."""

    def write() -> None:
        try:
            replica.stub.WriteSnapshot(pb.WriteSnapshotRequest(name="chat"), timeout=60)
        except grpc.RpcError as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    return writer


def learn_much(replica: Replica, num_sequences: int = 200, sequence_len: int = 1000) -> None:
    """Text that does not repeat: its snapshot takes a good while to write."""
    rng = np.random.default_rng(SEED)
    texts = rng.integers(0, 1 << 20, size=(num_sequences, sequence_len))
    replica.learn("chat", *texts.tolist())


def test_a_replica_starts_from_a_snapshot_and_the_log_behind_it(valkey: Valkey, redis: Redis) -> None:
    with Replica("--redis", valkey.url, settings=NEVER) as one:
        one.learn("chat", *([number, number + 1000] for number in range(300)))
        until(lambda: one.num_sequences("chat") == 300)
        written = one.write_snapshot("chat")
        assert (written.num_tokens, written.num_trimmed) == (600, 300)
        assert num_in_log(redis) == 0
        one.learn("chat", [5000, 5001])
        until(lambda: one.num_sequences("chat") == 301)
        with Replica("--redis", valkey.url, settings=NEVER) as late:
            assert late.suggest("chat", 299) == [1299]
            assert late.suggest("chat", 5000) == [5001]
            assert late.num_sequences("chat") == 301
            assert late.digest("chat") == one.digest("chat")


def test_snapshots_are_written_and_the_log_is_trimmed_without_being_asked(
    valkey: Valkey, redis: Redis
) -> None:
    with (
        Replica("--redis", valkey.url, settings=EAGER) as one,
        Replica("--redis", valkey.url, settings=EAGER),
    ):
        for number in range(0, 60, 2):
            one.learn("chat", [number, number + 1])
        until(lambda: num_in_log(redis) == 0)
        stats = one.stub.GetNamespace(pb.GetNamespaceRequest(name="chat"), timeout=5).namespace.stats
        assert stats.snapshot_bytes > 0
        assert stats.log_bytes == 0
    with Replica("--redis", valkey.url, settings=NEVER) as late:
        assert [late.suggest("chat", number) for number in range(0, 60, 2)] == [
            [number + 1] for number in range(0, 60, 2)
        ]


def test_a_writer_killed_in_the_middle_of_a_snapshot_leaves_the_old_one(valkey: Valkey, redis: Redis) -> None:
    failures: list[grpc.RpcError] = []
    with Replica("--redis", valkey.url, settings=NEVER) as other:
        with Replica("--redis", valkey.url, settings=NEVER) as writer:
            writer.learn("chat", [1, 2, 3])
            until(lambda: writer.num_sequences("chat") == 1)
            writer.write_snapshot("chat")
            learn_much(writer)
            until(lambda: writer.num_sequences("chat") == 201)
            writing = write_quietly(writer, failures)
            until(lambda: len(staged(redis)) == 1)
            writer.kill()
            writing.join()
        assert [status(error) for error in failures] == [grpc.StatusCode.UNAVAILABLE]
        (orphan,) = staged(redis)
        assert 0 < redis.ttl(orphan) <= 120
        until(lambda: other.num_sequences("chat") == 201)
        with Replica("--redis", valkey.url, settings=NEVER) as late:
            assert held(late) == held(other)
        until(lambda: written_by(other))
        assert num_in_log(redis) == 0


def written_by(replica: Replica) -> bool:
    """Whether it may write by now: a lease outlives its owner for a while."""
    try:
        return replica.write_snapshot("chat").num_bytes > 0
    except grpc.RpcError as error:
        if status(error) is grpc.StatusCode.ABORTED:
            return False
        raise


def test_of_two_writers_that_believe_they_hold_the_lease_the_newer_one_wins(
    valkey: Valkey, redis: Redis
) -> None:
    failures: list[grpc.RpcError] = []
    with (
        Replica("--redis", valkey.url, settings=NEVER) as old,
        Replica("--redis", valkey.url, settings=NEVER) as new,
    ):
        learn_much(old)
        until(lambda: old.num_sequences("chat") == new.num_sequences("chat") == 200)
        writing = write_quietly(old, failures)
        until(lambda: len(staged(redis)) == 1)
        old.pause()
        new.learn("chat", [1, 2, 3])
        until(lambda: new.num_sequences("chat") == 201)
        until(lambda: written_by(new))
        before = described(redis)
        old.resume()
        writing.join()
        assert [status(error) for error in failures] == [grpc.StatusCode.ABORTED]
        assert described(redis) == before
        until(lambda: held(old) == held(new))
        with Replica("--redis", valkey.url, settings=NEVER) as late:
            assert held(late) == held(new)


def test_a_damaged_snapshot_is_replaced_by_a_replica_that_has_the_text(valkey: Valkey, redis: Redis) -> None:
    with Replica("--redis", valkey.url, settings=NEVER) as whole:
        whole.learn("chat", [1, 2, 3], [7, 8])
        until(lambda: whole.num_sequences("chat") == 2)
        whole.write_snapshot("chat")
        damage(redis)
        with Replica("--redis", valkey.url, settings=NEVER) as late:
            until(lambda: late.suggest("chat", 1) == [2, 3])
            until(lambda: late.digest("chat") == whole.digest("chat"))
            late.learn("chat", [4, 5])
            until(lambda: whole.suggest("chat", 4) == late.suggest("chat", 4) == [5])
            assert late.log.count("put aside") == 1
            assert whole.log.count("snapshot written") == 2


def damage(redis: Redis) -> None:
    """Change a byte of the snapshot's second chunk."""
    (key,) = keys_of(redis, "snap")
    chunk = bytearray(redis.hget(key, "1") or b"")
    chunk[len(chunk) // 2] ^= 1
    redis.hset(key, "1", bytes(chunk))


def test_without_such_a_replica_the_log_is_used_as_far_as_it_goes(valkey: Valkey, redis: Redis) -> None:
    with Replica("--redis", valkey.url, settings=NEVER | {"snapshot_keep_s": 3600}) as one:
        one.learn("chat", [1, 2, 3])
        until(lambda: one.num_sequences("chat") == 1)
        assert one.write_snapshot("chat").num_trimmed == 0
        one.learn("chat", [7, 8])
    damage(redis)
    with Replica("--redis", valkey.url, settings=NEVER | {"snapshot_grace_s": 0.1}) as late:
        assert late.suggest("chat", 1) == [2, 3]
        assert late.suggest("chat", 7) == [8]
        until(lambda: late.log.count("snapshot written") == 1)
        assert late.log.count("put aside") == 1
    with Replica("--redis", valkey.url, settings=NEVER) as last:
        assert last.suggest("chat", 1) == [2, 3]
        assert "damaged" not in last.log


def test_a_snapshot_in_an_unknown_format_is_refused(valkey: Valkey, redis: Redis) -> None:
    with Replica("--redis", valkey.url, settings=NEVER) as one:
        one.learn("chat", [1, 2, 3])
        one.learn("other", [1, 2, 3])
        until(lambda: one.suggest("chat", 1) == one.suggest("other", 1) == [2, 3])
        one.write_snapshot("chat")
    (key,) = keys_of(redis, "snap")
    redis.hset(key, "header", MAGIC + (7).to_bytes(2, "little") + bytes(40))
    with Replica("--redis", valkey.url, settings=NEVER) as late:
        with pytest.raises(grpc.RpcError) as caught:
            late.suggest("chat", 1)
        assert status(caught.value) is grpc.StatusCode.FAILED_PRECONDITION
        assert "format 7" in str(caught.value.details())
        assert late.suggest("other", 1) == [2, 3]
        assert late.log.count("namespace refused") == 1


def test_a_replica_that_slept_through_a_trim_takes_up_the_snapshot(valkey: Valkey, redis: Redis) -> None:
    with (
        Replica("--redis", valkey.url, settings=NEVER) as one,
        Replica("--redis", valkey.url, settings=NEVER) as sleeper,
    ):
        one.learn("chat", [1, 2])
        until(lambda: sleeper.suggest("chat", 1) == [2])
        sleeper.pause()
        one.learn("chat", *([number, number + 1000] for number in range(100, 400)))
        until(lambda: one.num_sequences("chat") == 301)
        one.write_snapshot("chat")
        assert num_in_log(redis) == 0
        one.learn("chat", [5000, 5001])
        sleeper.resume()
        until(lambda: sleeper.suggest("chat", 5000) == [5001])
        assert sleeper.suggest("chat", 399) == [1399]
        assert sleeper.digest("chat") == one.digest("chat")
        assert sleeper.log.count("trimmed unread") == 1
