"""Replicas on a cluster of three nodes, and on a Redis with TLS and a user of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from draftwell.trie.v1 import trie_pb2 as pb
from redis_with_tls import IS_INSTALLED, PASSWORD, redis_with_tls
from trie_processes import Replica, command, until
from valkey_cluster import valkey_cluster

NAMES = [f"tenant-{number}" for number in range(8)]  # on different nodes of a cluster


def check_replicas(url: str, *, shown: str) -> None:
    """All that replicas do with a store: learn, follow, snapshot, start again, delete."""
    with Replica("--redis", url) as one:
        with Replica("--redis", url) as other:
            for number, name in enumerate(NAMES):
                one.learn(name, [1, 2, number + 10])
            until(lambda: all(other.suggest(name, 1, 2) for name in NAMES))
            assert [other.suggest(name, 1, 2) for name in NAMES] == [[n + 10] for n in range(len(NAMES))]
            assert all(one.write_snapshot(name).num_bytes > 0 for name in NAMES)
            other.stub.DeleteNamespace(pb.DeleteNamespaceRequest(name=NAMES[0]), timeout=5)
            until(lambda: one.suggest(NAMES[0], 1, 2) == [])
            info = one.stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=5)
            assert info.store == shown
        with Replica("--redis", url) as late:
            assert late.suggest(NAMES[1], 1, 2) == [11]
            assert late.digest(NAMES[1]) == one.digest(NAMES[1])


def test_replicas_share_a_cluster() -> None:
    with valkey_cluster() as cluster:
        check_replicas(cluster.url, shown=cluster.url)


@pytest.mark.skipif(not IS_INSTALLED, reason="needs Debian's redis-server and openssl")
def test_replicas_reach_redis_by_tls_as_a_user_with_few_rights(tmp_path: Path) -> None:
    with redis_with_tls(tmp_path) as url:
        host = url.partition("@")[2].partition("?")[0]
        check_replicas(url, shown=f"rediss://{host}")
        for wrong, complaint in (
            (url.replace(PASSWORD, "wrong"), "invalid username-password"),
            (url.partition("?")[0], "certificate verify failed"),
        ):
            failed = subprocess.run(
                command("--listen", "127.0.0.1:0", "--redis", wrong),
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert failed.returncode == 1
            assert complaint in failed.stderr
            assert PASSWORD not in failed.stderr
