"""Namespaces over real gRPC and a real valkey-server, at two replicas: bounds, deletion, files, sharing."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from time import monotonic

import grpc
import pytest
import redis
from draftwell.trie.v1 import trie_pb2 as pb
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from trie_processes import DEADLINE_S, Replica, Valkey, until
from trie_processes import status_of as status

from trie_service.moving import PIECE_BYTES

MIB = 1 << 20


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with Valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture(scope="module")
def replicas(valkey: Valkey) -> Iterator[tuple[Replica, Replica]]:
    flags = ("--redis", valkey.url, "--max-bytes", "16MiB")
    with Replica(*flags) as one, Replica(*flags) as other:
        yield one, other


def learn(replica: Replica, namespace: str, sequences: dict[str, Sequence[int]]) -> pb.LearnResponse:
    ref = pb.NamespaceRef(name=namespace, fingerprint="fp")
    requests = [
        pb.LearnRequest(namespace=ref, sequence_id=name, tokens=tokens) for name, tokens in sequences.items()
    ]
    return replica.stub.Learn(iter(requests), timeout=DEADLINE_S)


def create(replica: Replica, name: str, fingerprint: str = "fp", **limits: int) -> pb.Namespace:
    request = pb.CreateNamespaceRequest(
        namespace=pb.NamespaceRef(name=name, fingerprint=fingerprint),
        vocab_size=50_000,
        limits=pb.NamespaceLimits(**limits),
    )
    return replica.stub.CreateNamespace(request, timeout=DEADLINE_S).namespace


def describe(replica: Replica, name: str) -> pb.Namespace:
    return replica.stub.GetNamespace(pb.GetNamespaceRequest(name=name), timeout=DEADLINE_S).namespace


def exists(replica: Replica, name: str) -> bool:
    listed = replica.stub.ListNamespaces(pb.ListNamespacesRequest(), timeout=DEADLINE_S).namespaces
    return name in {namespace.name for namespace in listed}


def digest_of(replica: Replica, name: str) -> str:
    found = replica.stub.VerifyNamespace(pb.VerifyNamespaceRequest(name=name), timeout=DEADLINE_S)
    assert list(found.problems) == []
    return found.digest


def export(replica: Replica, name: str) -> bytes:
    pieces = list(replica.stub.ExportNamespace(pb.ExportNamespaceRequest(name=name), timeout=DEADLINE_S))
    data = b"".join(piece.data for piece in pieces)
    assert [piece.total_bytes for piece in pieces] == [len(data), *[0] * (len(pieces) - 1)]
    return data


def import_file(replica: Replica, data: bytes, name: str = "") -> pb.Namespace:
    def pieces() -> Iterable[pb.ImportNamespaceRequest]:
        yield pb.ImportNamespaceRequest(name=name, data=data[:50])
        for start in range(50, len(data), 1 << 20):
            yield pb.ImportNamespaceRequest(data=data[start : start + (1 << 20)])

    return replica.stub.ImportNamespace(iter(pieces()), timeout=DEADLINE_S).namespace


def forget(replica: Replica, namespace: str, name: str) -> int:
    request = pb.ForgetRequest(namespace=pb.NamespaceRef(name=namespace), sequence_id=name)
    return replica.stub.Forget(request, timeout=DEADLINE_S).num_tokens


def delete(replica: Replica, name: str) -> None:
    replica.stub.DeleteNamespace(pb.DeleteNamespaceRequest(name=name), timeout=DEADLINE_S)


def query(own: str, context: Sequence[int], shared: str | None = None, max_nodes: int = 64) -> pb.DraftQuery:
    asked = pb.DraftQuery(
        namespace=pb.NamespaceRef(name=own), context=context, limits=pb.DraftLimits(max_nodes=max_nodes)
    )
    if shared is not None:
        asked.shared_namespace.name = shared
    return asked


def draft(replica: Replica, *queries: pb.DraftQuery) -> Sequence[pb.DraftAnswer]:
    request = pb.DraftRequest(queries=queries)
    return next(replica.stub.Draft(iter([request]), timeout=DEADLINE_S)).answers


def test_a_deleted_namespace_is_gone_within_a_second_at_every_replica_and_in_redis(
    valkey: Valkey, replicas: tuple[Replica, Replica]
) -> None:
    store = redis.Redis.from_url(valkey.url)
    for one, other in (replicas, replicas[::-1]):
        learn(one, "doomed", {"a": [1, 2, 3]})
        until(lambda other=other: other.suggest("doomed", 1) == [2, 3])  # type: ignore[misc]
        one.stub.WriteSnapshot(pb.WriteSnapshotRequest(name="doomed"), timeout=DEADLINE_S)
        assert store.keys("dw:{doomed}:*") != []
        started = monotonic()
        delete(one, "doomed")
        assert not exists(one, "doomed")
        until(lambda other=other: not exists(other, "doomed"))  # type: ignore[misc]
        assert monotonic() - started < 1
        marks = store.keys("dw:{doomed}:deleted:*")
        assert store.keys("dw:{doomed}:*") == marks
        assert all(store.ttl(mark) > 0 and store.get(mark) == b"1" for mark in marks)


def test_a_sequence_is_forgotten_at_every_replica(replicas: tuple[Replica, Replica]) -> None:
    one, other = replicas
    learn(one, "chat", {"mine": [1, 2, 3, 4], "theirs": [1, 9]})
    until(lambda: set(other.suggest("chat", 1)) == {2, 3, 4, 9})
    assert forget(other, "chat", "mine") == 4
    assert other.suggest("chat", 1) == [9]
    until(lambda: one.suggest("chat", 1) == [9])
    assert describe(one, "chat").stats.num_forgotten_sequences == 1
    assert digest_of(one, "chat") == digest_of(other, "chat")
    with pytest.raises(grpc.RpcError) as caught:
        forget(one, "chat", "mine")
    assert status(caught.value) is grpc.StatusCode.NOT_FOUND
    assert "'mine'" in str(caught.value.details())


def test_a_copy_is_held_by_every_replica(replicas: tuple[Replica, Replica]) -> None:
    one, other = replicas
    learn(one, "original", {"a": [1, 2, 3]})
    request = pb.CopyNamespaceRequest(source="original", target="duplicate")
    assert one.stub.CopyNamespace(request, timeout=DEADLINE_S).namespace.stats.num_tokens == 3
    until(lambda: other.suggest("duplicate", 1) == [2, 3])
    assert digest_of(other, "duplicate") == digest_of(one, "original")
    with pytest.raises(grpc.RpcError) as caught:
        other.stub.CopyNamespace(request, timeout=DEADLINE_S)
    assert status(caught.value) is grpc.StatusCode.ALREADY_EXISTS


def test_a_file_of_a_namespace_makes_the_same_one_at_another_service(
    replicas: tuple[Replica, Replica], tmp_path: Path
) -> None:
    one, other = replicas
    rng = random.Random(1)
    texts = {str(number): [rng.randrange(40_000) for _ in range(1000)] for number in range(100)}
    learn(one, "corpus", texts)
    data = export(one, "corpus")
    assert len(data) > PIECE_BYTES  # in more than one
    with Replica("--redis", f"embedded:{tmp_path}") as elsewhere:
        made = import_file(elsewhere, data)
        assert (made.name, made.fingerprint, made.stats.num_tokens) == ("corpus", "fp", 100_000)
        assert digest_of(elsewhere, "corpus") == digest_of(one, "corpus")
        assert forget(elsewhere, "corpus", "7") == 1000
        assert elsewhere.stop() == 0
    with Replica("--redis", f"embedded:{tmp_path}") as again:
        assert describe(again, "corpus").stats.num_forgotten_sequences == 1
    assert import_file(other, data, "corpus-2").name == "corpus-2"
    until(lambda: exists(one, "corpus-2"))
    assert digest_of(one, "corpus-2") == digest_of(one, "corpus")


def test_a_damaged_file_is_refused_and_leaves_nothing_behind(
    valkey: Valkey, replicas: tuple[Replica, Replica]
) -> None:
    one, other = replicas
    learn(one, "source", {"a": [1, 2, 3]})
    data = export(one, "source")
    later = data[:8] + bytes([2]) + data[9:]
    flipped = data[:-50] + bytes([data[-50] ^ 1]) + data[-49:]
    for bad, message in (
        (b"", "no export"),
        (b"\x80\x04\x95pickle", "no export"),
        (data[:-1], "cut short"),
        (data[: len(data) // 2], "cut short"),
        (flipped, "damaged"),
        (later, "format 2"),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            import_file(one, bad, "imported")
        assert status(caught.value) is grpc.StatusCode.INVALID_ARGUMENT
        assert message in str(caught.value.details())
    assert not exists(one, "imported")
    assert not exists(other, "imported")
    assert redis.Redis.from_url(valkey.url).keys("dw:{imported}:*") == []


def test_who_learns_too_fast_is_told_when_to_come_back(replicas: tuple[Replica, Replica]) -> None:
    one, _ = replicas
    create(one, "slow", max_tokens_per_second=10)
    learn(one, "slow", {"a": range(1, 101)})
    with pytest.raises(grpc.RpcError) as caught:
        learn(one, "slow", {"b": range(1, 51)})
    assert status(caught.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "'slow' learns too fast" in str(caught.value.details())
    retry = error_details_pb2.RetryInfo()
    assert [detail.Unpack(retry) for detail in rpc_status.from_call(caught.value).details] == [False, True]
    assert 3 < retry.retry_delay.ToMilliseconds() / 1000 <= 5
    learn(one, "fast", {"a": range(1, 1001)})


def test_limits_change_at_every_replica_while_it_runs(replicas: tuple[Replica, Replica]) -> None:
    one, other = replicas
    rng = random.Random(2)
    learn(one, "big", {str(number): [rng.randrange(40_000) for _ in range(1000)] for number in range(100)})
    until(lambda: exists(other, "big") and describe(other, "big").stats.num_bytes > 4 * MIB)
    limits = pb.NamespaceLimits(max_bytes=2 * MIB, text_ttl_seconds=3600)
    request = pb.UpdateNamespaceRequest(name="big", limits=limits)
    assert one.stub.UpdateNamespace(request, timeout=DEADLINE_S).namespace.limits == limits
    for replica in (one, other):
        until(lambda replica=replica: describe(replica, "big").stats.num_bytes <= 2 * MIB)  # type: ignore[misc]
        assert describe(replica, "big").limits == limits
        assert describe(replica, "big").stats.num_evicted_tokens > 0
        assert len(replica.suggest("big", rng.randrange(40_000))) >= 0
    learn(other, "big", {"new": [45_001, 45_002]})
    until(lambda: one.suggest("big", 45_001) == [45_002])
    request.limits.max_bytes = 17 * MIB
    with pytest.raises(grpc.RpcError) as caught:
        one.stub.UpdateNamespace(request, timeout=DEADLINE_S)
    assert status(caught.value) is grpc.StatusCode.INVALID_ARGUMENT
    assert str(17 * MIB) in str(caught.value.details())


def test_text_is_forgotten_after_its_time_at_every_replica(replicas: tuple[Replica, Replica]) -> None:
    one, other = replicas
    create(one, "brief", text_ttl_seconds=1)
    learn(one, "brief", {"a": [1, 2]})
    until(lambda: other.suggest("brief", 1) == [2])
    for replica in replicas:
        until(lambda replica=replica: replica.suggest("brief", 1) == [], 3)  # type: ignore[misc]
    assert digest_of(one, "brief") == digest_of(other, "brief")
    assert describe(other, "brief").stats.num_evicted_tokens == 2


def test_a_shared_namespace_is_drafted_from_and_told_apart(replicas: tuple[Replica, Replica]) -> None:
    one, _ = replicas
    learn(one, "tenant", {"a": [1, 2, 3]})
    learn(one, "library", {"a": [1, 7, 8]})
    create(one, "foreign", fingerprint="other")
    until(lambda: one.suggest("tenant", 1) == [2, 3] and one.suggest("library", 1) == [7, 8])
    plain, both, foreign, missing = draft(
        one,
        query("tenant", [1]),
        query("tenant", [1], "library"),
        query("tenant", [1], "foreign"),
        query("tenant", [1], "none"),
    )
    assert list(plain.draft.origins) == []
    assert dict(zip(both.draft.tokens, both.draft.origins, strict=True)) == {2: 0, 3: 0, 7: 1, 8: 1}
    assert foreign.error.code == grpc.StatusCode.FAILED_PRECONDITION.value[0]
    assert "'foreign' has fingerprint 'other'" in foreign.error.message
    assert missing.error.code == grpc.StatusCode.NOT_FOUND.value[0]
    assert describe(one, "library").stats.num_tokens == 3


def grams_of(tree: pb.DraftTree, context: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """For each node what it matched and the node itself."""
    paths: list[list[int]] = []
    for token, parent, order in zip(tree.tokens, tree.parents, tree.match_orders, strict=True):
        path = paths[parent] if parent >= 0 else list(context)
        yield (*path[len(path) - order :], token)
        paths.append([*path, token])


def test_no_draft_holds_an_ngram_that_its_namespace_never_learned(replicas: tuple[Replica, Replica]) -> None:
    one, other = replicas
    rng = random.Random(3)
    texts = {
        tenant: {str(number): [rng.randrange(8) for _ in range(rng.randrange(2, 30))] for number in range(8)}
        for tenant in ("tenant-a", "tenant-b")
    }
    for tenant, learned in texts.items():
        learn(rng.choice(replicas), tenant, learned)
    for replica, tenant in product(replicas, texts):
        until(lambda r=replica, t=tenant: exists(r, t) and r.num_sequences(t) == 8)  # type: ignore[misc]
    known = {
        tenant: {tuple(text[at:end]) for text in held.values() for at in range(30) for end in range(31)}
        for tenant, held in texts.items()
    }
    num_nodes = 0
    for _ in range(100):
        context = [rng.randrange(8) for _ in range(rng.randrange(6))]
        own, shared = rng.choice([*product(texts, [None, *texts])])
        (answer,) = draft(rng.choice(replicas), query(own, context, shared))
        origins = answer.draft.origins or [0] * len(answer.draft.tokens)
        for gram, origin in zip(grams_of(answer.draft, context), origins, strict=True):
            assert gram in known[own if origin == 0 or shared is None else shared]
            num_nodes += 1
    assert num_nodes > 1000
    delete(one, "tenant-a")
    until(lambda: not exists(other, "tenant-a"))
    learn(other, "tenant-a", {"new": [100, 101]})
    until(lambda: one.suggest("tenant-a", 100) == [101])
    assert all(replica.suggest("tenant-a", token) == [] for replica in replicas for token in range(8))


def test_a_message_that_asks_for_too_many_nodes_is_refused(replicas: tuple[Replica, Replica]) -> None:
    one, _ = replicas
    with pytest.raises(grpc.RpcError) as caught:
        draft(one, *[query("chat", [1], max_nodes=1024)] * 65)
    assert status(caught.value) is grpc.StatusCode.INVALID_ARGUMENT
    assert str(65 * 1024) in str(caught.value.details())


def test_what_is_drafted_most_is_told(replicas: tuple[Replica, Replica]) -> None:
    one, _ = replicas
    learn(one, "popular", {"a": [1, 2, 3], "b": [4, 5]})
    until(lambda: one.suggest("popular", 4) == [5])
    for _ in range(40):
        assert one.suggest("popular", 1) == [2, 3]
    request = pb.GetTopDraftsRequest(name="popular", limit=1)
    (top,) = one.stub.GetTopDrafts(request, timeout=DEADLINE_S).drafts
    assert (list(top.context), list(top.tokens)) == ([1], [2, 3])
    assert 32 <= top.num_drafts <= 56


def test_the_service_bounds_namespaces_and_bytes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTWELL_TRIE_MAX_NAMESPACES", "2")
    monkeypatch.setenv("DRAFTWELL_TRIE_MAX_TOTAL_BYTES", "6MiB")
    monkeypatch.setenv("DRAFTWELL_TRIE_MAX_TOTAL_TOKENS_PER_SECOND", "20000")
    rng = random.Random(4)
    with Replica() as replica:
        create(replica, "large")
        create(replica, "small")
        with pytest.raises(grpc.RpcError) as caught:
            create(replica, "third")
        assert status(caught.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
        learn(replica, "small", {"a": [1, 2, 3]})
        learn(replica, "large", {str(n): [rng.randrange(40_000) for _ in range(1000)] for n in range(150)})

        def is_done() -> bool:
            large = describe(replica, "large").stats
            return large.num_pending == 0 and large.num_bytes < 6 * MIB and large.num_evicted_tokens > 0

        until(is_done)
        assert replica.suggest("small", 1) == [2, 3]
        with pytest.raises(grpc.RpcError) as caught:
            learn(replica, "small", {"b": [1] * 100_000})
        assert status(caught.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "the service learns too fast" in str(caught.value.details())
