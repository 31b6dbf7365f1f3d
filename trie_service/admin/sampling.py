"""What a replica says about itself, once or again and again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub

from trie_service.admin.connection import CALL_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Rates:
    """What happened in a namespace between two looks."""

    tokens_per_second: float  # learned
    lookups_per_second: float
    drafted_nodes_per_second: float
    hit_rate: float | None  # None: nothing was looked up


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a replica."""

    server: pb.GetServerInfoResponse
    namespaces: tuple[pb.Namespace, ...]
    rates: dict[str, Rates]  # by namespace; empty at the first look


def samples(
    trie: TrieServiceStub, namespace: str | None, interval_s: float, num_looks: int | None
) -> Iterator[Sample]:
    """Looks at one namespace or all, ``interval_s`` apart; None: without end. Raises grpc.RpcError."""
    before: tuple[pb.Namespace, ...] = ()
    looked_at = time.monotonic()
    for look in count(1):
        server = trie.GetServerInfo(pb.GetServerInfoRequest(), timeout=CALL_TIMEOUT_S)
        found, now = _namespaces(trie, namespace), time.monotonic()
        yield Sample(server, found, rates_between(before, found, now - looked_at) if look > 1 else {})
        if look == num_looks:
            return
        before, looked_at = found, now
        time.sleep(max(0.0, now + interval_s - time.monotonic()))


def rates_between(
    before: tuple[pb.Namespace, ...], after: tuple[pb.Namespace, ...], seconds: float
) -> dict[str, Rates]:
    """Rates of the namespaces that both looks have; a counter that fell started anew."""
    earlier = {namespace.name: namespace.stats for namespace in before}
    return {
        namespace.name: _rates(earlier[namespace.name], namespace.stats, max(seconds, 1e-9))
        for namespace in after
        if namespace.name in earlier
    }


def _rates(before: pb.NamespaceStats, after: pb.NamespaceStats, seconds: float) -> Rates:
    num_lookups = _grown(before.num_lookups, after.num_lookups)
    num_hits = _grown(before.num_hits, after.num_hits)
    return Rates(
        tokens_per_second=_grown(before.num_tokens, after.num_tokens) / seconds,
        lookups_per_second=num_lookups / seconds,
        drafted_nodes_per_second=_grown(before.num_drafted_nodes, after.num_drafted_nodes) / seconds,
        hit_rate=num_hits / num_lookups if num_lookups else None,
    )


def _grown(before: int, after: int) -> int:
    return after - before if after >= before else after


def _namespaces(trie: TrieServiceStub, name: str | None) -> tuple[pb.Namespace, ...]:
    if name is None:
        return tuple(trie.ListNamespaces(pb.ListNamespacesRequest(), timeout=CALL_TIMEOUT_S).namespaces)
    return (trie.GetNamespace(pb.GetNamespaceRequest(name=name), timeout=CALL_TIMEOUT_S).namespace,)
