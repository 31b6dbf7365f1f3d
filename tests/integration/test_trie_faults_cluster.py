"""A node of a cluster that dies takes only its own namespaces along."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import grpc
import pytest
from draftwell.trie.v1 import trie_pb2 as pb
from trie_processes import Replica, status_of, until
from valkey_cluster import ValkeyCluster, valkey_cluster

from trie_service.redis_keys import STORE_KEY, meta_key

NAMES = [f"tenant-{number}" for number in range(9)]
LOST, BACK = "node of the store lost", "node of the store is back"


@pytest.fixture
def cluster() -> Iterator[ValkeyCluster]:
    with valkey_cluster() as started:
        yield started


def names_on(cluster: ValkeyCluster, port: int) -> list[str]:
    return [name for name in NAMES if cluster.port_of(meta_key(name)) == port]


def is_refused(replica: Replica, name: str) -> bool:
    try:
        replica.learn(name, [7, 8])
    except grpc.RpcError as error:
        return status_of(error) is grpc.StatusCode.UNAVAILABLE
    return False


def drafts(replica: Replica, name: str, *context: int) -> bool:
    try:
        return replica.suggest(name, *context) != []
    except grpc.RpcError as error:
        if status_of(error) is grpc.StatusCode.UNAVAILABLE:
            return False
        raise


def learn_and_follow(one: Replica, other: Replica, names: list[str], tokens: list[int]) -> None:
    """Learn at one replica, wait until the other drafts it."""
    for name in names:
        one.learn(name, tokens)
    until(lambda: all(other.suggest(name, *tokens[:-1]) == tokens[-1:] for name in names))


@pytest.mark.parametrize("has_registry", [False, True])
@pytest.mark.parametrize("verb", ["kill", "pause"])
def test_namespaces_on_other_nodes_go_on(cluster: ValkeyCluster, verb: str, *, has_registry: bool) -> None:
    registry = cluster.port_of(STORE_KEY)
    victim = registry if has_registry else next(port for port in cluster.ports if port != registry)
    dead = names_on(cluster, victim)
    alive = [name for name in NAMES if name not in dead]
    assert dead
    assert alive
    with Replica("--redis", cluster.url) as one, Replica("--redis", cluster.url) as other:
        learn_and_follow(one, other, NAMES, [1, 2, 3])
        getattr(cluster, verb)(victim)
        until(lambda: LOST in one.log and LOST in other.log)
        slowest_s = 0.0
        for number in range(20):
            started = monotonic()
            learn_and_follow(one, other, alive, [100 + number, 50, 60])
            slowest_s = max(slowest_s, monotonic() - started)
            assert all(is_refused(one, name) for name in dead)
            assert all(other.suggest(name, 1, 2) == [3] for name in NAMES)
        assert slowest_s < 5
        assert one.state() == other.state() == pb.SERVING_STATE_SERVING
        for replica in (one, other):
            assert replica.log.count(LOST) == 1
            assert "store lost: drafts" not in replica.log


def test_a_node_that_comes_back_without_its_data_gets_it_from_memory(cluster: ValkeyCluster) -> None:
    victim = next(port for port in cluster.ports if port != cluster.port_of(STORE_KEY))
    dead = names_on(cluster, victim)
    with Replica("--redis", cluster.url) as one, Replica("--redis", cluster.url) as other:
        learn_and_follow(one, other, NAMES, [1, 2, 3])
        cluster.kill(victim)
        until(lambda: LOST in one.log and LOST in other.log)
        with Replica("--redis", cluster.url) as late:
            assert late.suggest(next(name for name in NAMES if name not in dead), 1, 2) == [3]
            with pytest.raises(grpc.RpcError) as caught:
                late.suggest(dead[0], 1, 2)
            assert status_of(caught.value) is grpc.StatusCode.UNAVAILABLE
            cluster.start(victim)
            until(lambda: not any(is_refused(one, name) for name in dead))
            learn_and_follow(one, other, dead, [4, 5, 6])
            until(lambda: all(drafts(late, name, *pair) for name in dead for pair in ((1, 2), (4, 5))))
        for replica in (one, other):
            assert (replica.log.count(LOST), replica.log.count(BACK)) == (1, 1)


def test_a_cluster_that_dies_as_a_whole_is_told_once_and_filled_from_memory(cluster: ValkeyCluster) -> None:
    with Replica("--redis", cluster.url) as one:
        for name in NAMES:
            one.learn(name, [1, 2, 3])
        until(lambda: all(one.suggest(name, 1, 2) == [3] for name in NAMES))
        for port in cluster.ports:
            cluster.kill(port)
        until(lambda: one.state() == pb.SERVING_STATE_DEGRADED)
        over = monotonic() + 5
        while monotonic() < over:
            assert all(one.suggest(name, 1, 2) == [3] for name in NAMES)
            assert is_refused(one, NAMES[0])
            assert one.state() == pb.SERVING_STATE_DEGRADED
        for port in cluster.ports:
            cluster.start(port)
        until(lambda: one.state() == pb.SERVING_STATE_SERVING)
        until(lambda: not any(is_refused(one, name) for name in NAMES))
        with Replica("--redis", cluster.url) as late:
            assert all(late.suggest(name, 1, 2) == [3] for name in NAMES)
        assert one.log.count("store lost: drafts go on") == one.log.count("store is back and memory") == 1
        assert one.log.count(LOST) <= len(cluster.ports)


def test_a_registry_that_is_lost_is_made_again_and_nothing_counts_twice(cluster: ValkeyCluster) -> None:
    victim = cluster.port_of(STORE_KEY)
    alive = [name for name in NAMES if name not in names_on(cluster, victim)]
    with Replica("--redis", cluster.url) as one, Replica("--redis", cluster.url) as other:
        learn_and_follow(one, other, NAMES, [1, 2, 3])
        assert one.write_snapshot(alive[0]).num_trimmed == 0
        cluster.kill(victim)
        until(lambda: LOST in one.log and LOST in other.log)
        learn_and_follow(one, other, alive, [4, 5, 6])
        cluster.start(victim)
        until(lambda: not any(is_refused(one, name) for name in NAMES))
        learn_and_follow(one, other, NAMES, [21, 22, 23])
        with Replica("--redis", cluster.url) as late:
            for name in NAMES:
                until(lambda name=name: late.digest(name)[0] == one.digest(name)[0] == other.digest(name)[0])
            assert all(late.suggest(name, 4, 5) == [6] for name in alive)
        assert one.log.count("the store was emptied") <= 1
