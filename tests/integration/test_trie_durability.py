"""Nothing acknowledged is lost, and replicas learn from each other."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from draftwell.trie.v1 import trie_pb2 as pb
from trie_processes import Replica, Valkey, children_of, command, is_running, until
from trie_processes import status_of as status

SERVING = pb.SERVING_STATE_SERVING
DEGRADED = pb.SERVING_STATE_DEGRADED


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    with Valkey(tmp_path) as server:
        yield server


def test_what_one_replica_learns_the_other_drafts(valkey: Valkey) -> None:
    with Replica("--redis", valkey.url) as one, Replica("--redis", valkey.url) as other:
        one.learn("chat", [1, 2, 3, 4])
        until(lambda: other.suggest("chat", 1, 2) == [3, 4])
        other.learn("chat", [7, 8])
        until(lambda: one.suggest("chat", 7) == [8])
        one.stub.DeleteNamespace(pb.DeleteNamespaceRequest(name="chat"), timeout=5)
        until(lambda: other.suggest("chat", 1, 2) == [])
        assert not other.stub.ListNamespaces(pb.ListNamespacesRequest(), timeout=5).namespaces


def test_a_replica_killed_while_learning_loses_nothing_acknowledged(valkey: Valkey) -> None:
    acknowledged: list[int] = []

    def learn_until_killed(replica: Replica) -> None:
        for first in range(0, 1_000_000, 10):
            try:
                replica.learn("chat", *([number, number + 1_000_000] for number in range(first, first + 10)))
            except grpc.RpcError:
                return
            acknowledged.extend(range(first, first + 10))

    with Replica("--redis", valkey.url) as replica:
        learner = threading.Thread(target=learn_until_killed, args=[replica])
        learner.start()
        until(lambda: len(acknowledged) >= 500)
        replica.kill()
        learner.join(timeout=20)
        assert not learner.is_alive()
    with Replica("--redis", valkey.url) as restarted:
        assert restarted.num_sequences("chat") >= len(acknowledged)
        lost = [
            number for number in acknowledged if restarted.suggest("chat", number) != [number + 1_000_000]
        ]
        assert lost == []


def test_without_redis_drafts_go_on_learning_does_not_and_all_recovers(valkey: Valkey) -> None:
    with Replica("--redis", valkey.url) as one, Replica("--redis", valkey.url) as other:
        one.learn("chat", [1, 2, 3])
        until(lambda: other.suggest("chat", 1) == [2, 3])
        valkey.kill()
        until(lambda: one.state() == other.state() == DEGRADED)
        assert one.suggest("chat", 1) == other.suggest("chat", 1) == [2, 3]
        with pytest.raises(grpc.RpcError) as caught:
            one.learn("chat", [4, 5])
        assert status(caught.value) is grpc.StatusCode.UNAVAILABLE
        valkey.start()
        until(lambda: one.state() == other.state() == SERVING)
        one.learn("chat", [4, 5])
        until(lambda: other.suggest("chat", 4) == [5])
        until(lambda: one.num_sequences("chat") == 2)
        assert one.log.count("store lost") == one.log.count("store is back") == 1


def test_an_embedded_store_with_a_folder_survives_restarts_and_kills(tmp_path: Path) -> None:
    flags = ("--redis", f"embedded:{tmp_path / 'data'}")
    with Replica(*flags) as first:
        first.learn("chat", [1, 2, 3])
        assert first.stop() == 0
    with Replica(*flags) as second:
        assert second.suggest("chat", 1) == [2, 3]
        second.learn("chat", [4, 5])
        second.kill()
    with Replica(*flags) as third:
        assert third.suggest("chat", 1) == [2, 3]
        assert third.suggest("chat", 4) == [5]


def test_the_embedded_server_ends_with_its_parent_even_when_that_is_killed() -> None:
    with Replica() as replica:
        (server,) = children_of(replica.process.pid)
        assert is_running(server)
        replica.kill()
        until(lambda: not is_running(server), deadline_s=5)


def test_an_embedded_server_that_dies_is_started_again_and_memory_is_kept() -> None:
    with Replica() as replica:
        replica.learn("chat", [1, 2])
        until(lambda: replica.suggest("chat", 1) == [2])
        (server,) = children_of(replica.process.pid)
        os.kill(server, signal.SIGKILL)
        until(lambda: children_of(replica.process.pid) not in ([], [server]))
        until(lambda: replica.state() == SERVING)
        replica.learn("chat", [3, 4])
        until(lambda: replica.suggest("chat", 3) == [4])
        assert replica.suggest("chat", 1) == [2]


def test_two_services_never_share_a_data_folder(tmp_path: Path) -> None:
    flags = ("--redis", f"embedded:{tmp_path}")
    with Replica(*flags):
        second = subprocess.run(
            command("--listen", "127.0.0.1:0", *flags),
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    assert second.returncode == 1
    assert "is in use by another trie-service" in second.stderr
