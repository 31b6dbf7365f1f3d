"""The trie service over real gRPC: its calls, its answers to bad input, its start and stop."""

from __future__ import annotations

import socket
import statistics
import subprocess
from collections.abc import Iterator
from queue import SimpleQueue
from time import perf_counter

import grpc
import pytest
from draftwell.trie.v1 import trie_pb2 as pb
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status
from trie_processes import Replica, command, free_port, learn_requests, until
from trie_processes import status_of as status

SERVICE = "draftwell.trie.v1.TrieService"


@pytest.fixture(scope="module")
def replica() -> Iterator[Replica]:
    with Replica("--log-format", "json") as started:
        started.stub.CreateNamespace(
            pb.CreateNamespaceRequest(
                namespace=pb.NamespaceRef(name="chat", fingerprint="fp"), vocab_size=1000
            )
        )
        started.learn("chat", [1, 2, 3, 4], [1, 2, 5])
        until(lambda: len(started.suggest("chat", 1)) > 0)
        yield started


def query(*context: int, namespace: str = "chat", fingerprint: str = "", **limits: float) -> pb.DraftQuery:
    ref = pb.NamespaceRef(name=namespace, fingerprint=fingerprint)
    return pb.DraftQuery(namespace=ref, context=context, limits=pb.DraftLimits(**limits))


def health_of(replica: Replica, service: str = "") -> int:
    stub = health_pb2_grpc.HealthStub(replica.channel)
    return int(stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5).status)


def test_a_stream_answers_each_request_in_order_and_each_query_alone(replica: Replica) -> None:
    requests = [
        pb.DraftRequest(id=7, queries=[query(1), query(1, namespace="none"), query(9), query(1, 5000)]),
        pb.DraftRequest(id=5),
        pb.DraftRequest(id=6, queries=[query(1, fingerprint="other"), query(3, fingerprint="fp")]),
    ]
    first, empty, last = replica.stub.Draft(iter(requests), timeout=5)
    assert (first.id, empty.id, last.id) == (7, 5, 6)
    assert set(first.answers[0].draft.tokens) == {2, 3, 4, 5}
    assert [answer.error.code for answer in first.answers] == [0, 5, 0, 3]
    assert "'none' does not exist" in first.answers[1].error.message
    assert "token id 5000" in first.answers[3].error.message
    assert list(empty.answers) == []
    assert last.answers[0].error.code == grpc.StatusCode.FAILED_PRECONDITION.value[0]
    assert list(last.answers[1].draft.tokens) == [4]


def test_a_draft_is_a_tree_with_evidence(replica: Replica) -> None:
    draft = replica.stub.Suggest(pb.SuggestRequest(query=query(1)), timeout=5).draft
    size = len(draft.tokens)
    columns = (draft.parents, draft.match_orders, draft.counts, draft.totals, draft.probabilities)
    assert all(len(column) == size for column in columns)
    assert all(-1 <= parent < node for node, parent in enumerate(draft.parents))
    root = list(draft.tokens).index(2)
    assert (draft.parents[root], draft.counts[root], draft.totals[root]) == (-1, 2, 2)
    assert all(0 < probability <= 1 for probability in draft.probabilities)
    one = replica.stub.Suggest(pb.SuggestRequest(query=query(1, max_nodes=1)), timeout=5).draft
    assert list(one.tokens) == [2]


@pytest.mark.parametrize(
    ("bad", "code", "message"),
    [
        (query(1, namespace="none"), grpc.StatusCode.NOT_FOUND, "namespace 'none' does not exist"),
        (query(1, namespace="a b"), grpc.StatusCode.INVALID_ARGUMENT, "'a b'"),
        (query(1, fingerprint="other"), grpc.StatusCode.FAILED_PRECONDITION, "'other'"),
        (query(1, 1000), grpc.StatusCode.INVALID_ARGUMENT, "token id 1000"),
        (query(1, 2**32 - 1), grpc.StatusCode.INVALID_ARGUMENT, "token id 4294967295"),
        (query(1, min_probability=7), grpc.StatusCode.INVALID_ARGUMENT, "min_probability 7.0"),
        (query(1, max_nodes=10**6), grpc.StatusCode.INVALID_ARGUMENT, "max_nodes 1000000"),
    ],
)
def test_a_bad_query_gets_its_status(
    replica: Replica, bad: pb.DraftQuery, code: grpc.StatusCode, message: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        replica.stub.Suggest(pb.SuggestRequest(query=bad), timeout=5)
    assert status(caught.value) is code
    assert message in str(caught.value.details())


def test_an_error_carries_a_reason_for_programs(replica: Replica) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        replica.stub.GetNamespace(pb.GetNamespaceRequest(name="none"), timeout=5)
    info = error_details_pb2.ErrorInfo()
    assert rpc_status.from_call(caught.value).details[0].Unpack(info)
    assert (info.reason, info.domain) == ("NAMESPACE_NOT_FOUND", "trie.draftwell")


def test_bad_sequences_are_refused_and_harm_nobody(replica: Replica) -> None:
    for tokens, message in (([], "has no tokens"), ([1000], "token id 1000")):
        with pytest.raises(grpc.RpcError) as caught:
            replica.learn("chat", tokens)
        assert status(caught.value) is grpc.StatusCode.INVALID_ARGUMENT
        assert message in str(caught.value.details())
    assert replica.learn("chat", [11, 12]).num_tokens == 2


def test_an_empty_learn_acknowledges_nothing(replica: Replica) -> None:
    assert replica.stub.Learn(iter(()), timeout=5) == pb.LearnResponse()


def test_a_message_of_10_mb_is_refused_and_harms_nobody(replica: Replica) -> None:
    huge = [2**28 - 1] * 2_500_000
    with pytest.raises(grpc.RpcError) as caught:
        replica.stub.Learn(learn_requests("chat", [huge]), timeout=20)
    assert status(caught.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in str(caught.value.details())
    assert len(replica.suggest("chat", 1)) > 0


def test_too_many_queries_in_a_message_are_refused(replica: Replica) -> None:
    request = pb.DraftRequest(queries=[query(1)] * 1025)
    with pytest.raises(grpc.RpcError) as caught:
        next(replica.stub.Draft(iter([request]), timeout=5))
    assert status(caught.value) is grpc.StatusCode.INVALID_ARGUMENT
    assert "1025 queries" in str(caught.value.details())


@pytest.mark.parametrize("garbage", [b"\x00" * 4096, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 64])
def test_garbage_on_the_port_harms_nobody(replica: Replica, garbage: bytes) -> None:
    host, port = replica.address.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as raw:
        raw.sendall(garbage)
        assert len(replica.suggest("chat", 1)) > 0
    assert len(replica.suggest("chat", 1)) > 0


def test_health_and_reflection_know_the_service(replica: Replica) -> None:
    for service in ("", SERVICE, f"{SERVICE}.Learn"):
        assert health_of(replica, service) == health_pb2.HealthCheckResponse.SERVING
    assert SERVICE in ProtoReflectionDescriptorDatabase(replica.channel).get_services()


def test_the_server_tells_how_it_fares(replica: Replica) -> None:
    info = replica.stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=5)
    assert info.state == pb.SERVING_STATE_SERVING
    assert info.store == "embedded:"
    assert info.max_match_order == 16
    assert info.uptime_seconds > 0


def test_namespaces_can_be_created_listed_and_deleted(replica: Replica) -> None:
    ref = pb.NamespaceRef(name="a", fingerprint="x")
    created = replica.stub.CreateNamespace(pb.CreateNamespaceRequest(namespace=ref, vocab_size=10), timeout=5)
    again = replica.stub.CreateNamespace(pb.CreateNamespaceRequest(namespace=ref, vocab_size=10), timeout=5)
    assert created.namespace.vocab_size == again.namespace.vocab_size == 10
    listed = replica.stub.ListNamespaces(pb.ListNamespacesRequest(), timeout=5).namespaces
    assert [namespace.name for namespace in listed] == ["a", "chat"]
    replica.stub.DeleteNamespace(pb.DeleteNamespaceRequest(name="a"), timeout=5)
    with pytest.raises(grpc.RpcError) as caught:
        replica.stub.GetNamespace(pb.GetNamespaceRequest(name="a"), timeout=5)
    assert status(caught.value) is grpc.StatusCode.NOT_FOUND


def test_a_draft_round_trip_takes_less_than_a_millisecond(replica: Replica) -> None:
    asked: SimpleQueue[pb.DraftRequest | None] = SimpleQueue()
    answers = replica.stub.Draft(iter(asked.get, None), timeout=60)
    request = pb.DraftRequest(queries=[query(*range(1, 5))] * 4)

    def round_trip() -> float:
        started = perf_counter()
        asked.put(request)
        next(answers)
        return perf_counter() - started

    medians = [statistics.median(round_trip() for _ in range(100)) for _ in range(5)]
    asked.put(None)
    assert min(medians) < 1e-3  # the quietest moment: other tests may share the machine


def test_it_stops_in_order_with_streams_open() -> None:
    with Replica() as replica:
        replica.learn("chat", [1, 2])
        asked: SimpleQueue[pb.DraftRequest | None] = SimpleQueue()
        answers = replica.stub.Draft(iter(asked.get, None))
        asked.put(pb.DraftRequest(id=1))
        assert next(answers).id == 1
        watch = health_pb2_grpc.HealthStub(replica.channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        assert replica.stop() == 0
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        until(lambda: "stopped" in replica.log)
        asked.put(None)


def failed_start(*flags: str) -> tuple[int, str, float]:
    started = perf_counter()
    run = subprocess.run(command(*flags), capture_output=True, text=True, check=False, timeout=30)
    assert run.stdout == ""
    return run.returncode, run.stderr, perf_counter() - started


def test_without_redis_it_says_what_to_do_and_fails_quickly() -> None:
    url = f"redis://user:secret@127.0.0.1:{free_port()}"
    code, message, seconds = failed_start("--listen", "127.0.0.1:0", "--redis", url)
    assert code == 1
    assert "--redis embedded:" in message
    assert "Start a Redis or Valkey there" in message
    assert "secret" not in message
    assert "Traceback" not in message
    assert seconds < 10


def test_a_wrong_setting_and_a_taken_port_are_named(replica: Replica) -> None:
    code, message, _ = failed_start("--redis", "localhost:6379")
    assert code == 2
    assert "--redis (DRAFTWELL_TRIE_REDIS)" in message
    code, message, _ = failed_start("--listen", replica.address)
    assert code == 2
    assert f"cannot bind {replica.address}" in message
