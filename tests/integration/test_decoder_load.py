"""A decoder of one place and a queue of two: who leaves makes room at once, who is too many is told so.

Its trie service answers when the test lets it, so that the test decides when a step runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from decoder_process import ended_after, start_decoder
from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1.decoder_pb2_grpc import DecoderServiceStub
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from polling import poll
from stepped_trie import SteppedTrie, stepped_trie

from decoder_service.client import Client, Drafts, Overloaded, Stop

STOP = Stop(max_tokens=48, ignore_eos=True)
ENDLESS = Stop(max_tokens=3000, ignore_eos=True)


@pytest.fixture(scope="module")
def index() -> Iterator[SteppedTrie]:
    with stepped_trie() as servicer:
        yield servicer


@pytest.fixture(scope="module")
def small_address(model_folder: Path, index: SteppedTrie) -> Iterator[str]:
    process = start_decoder(
        model_folder, trie=index.address, max_streams=1, max_queue=2, draft_deadline_ms=10_000
    )
    with ended_after(process):
        yield process.address


@pytest.fixture
def small(small_address: str, index: SteppedTrie) -> Iterator[Client]:
    """A client of that decoder, whose drafts are held, and go on after the test."""
    with Client(small_address) as client:
        drafts = Drafts(sources=("index",), learn=False)
        poll(lambda: client.generate("x", stop=Stop(max_tokens=1), drafts=drafts).result().warnings == ())
        index.hold()
        try:
            yield client
        finally:
            index.go_on()


def asking(namespace: str) -> Drafts:
    return Drafts(sources=("index",), namespace=namespace, learn=False)


def test_the_work_of_a_client_that_leaves_stops_within_one_step(
    small: Client, index: SteppedTrie, decoder: Client
) -> None:
    leaving = small.generate("the model reads", stop=ENDLESS, drafts=asking("leaving"))
    for _ in range(3):
        assert index.next_asked() == ["leaving"]
        index.allow()
    next(leaving)
    staying = small.generate("a draft is", stop=STOP, drafts=asking("staying"))
    assert index.next_asked() == ["leaving"]  # a step of the first waits for this answer
    leaving.cancel()
    small.model()  # by the same connection, so the server has seen the cancellation
    num_more = steps_until("staying", index)
    assert num_more <= 1, "the step under way may end, no other may begin"
    index.go_on()
    plain = decoder.generate("a draft is", stop=STOP, drafts=Drafts.none()).result()
    assert staying.result().token_ids == plain.token_ids


def steps_until(namespace: str, index: SteppedTrie) -> int:
    """Answer one draft request after the other until this namespace asks; the number of others that asked."""
    num_others = 0
    index.allow()
    while index.next_asked() != [namespace]:
        num_others += 1
        index.allow()
    return num_others


def test_a_request_too_many_is_told_when_to_try_again_and_the_others_end_as_ever(
    small: Client, small_address: str, index: SteppedTrie, decoder: Client
) -> None:
    prompts = ("the model reads", "one token after")
    plain = [decoder.generate(prompt, stop=STOP, drafts=Drafts.none()).result() for prompt in prompts]
    taken = [small.generate(prompt, stop=STOP, drafts=asking("taken")) for prompt in prompts]
    assert index.next_asked() == ["taken"]
    with grpc.insecure_channel(small_address) as channel:
        error = refusal_of(DecoderServiceStub(channel))
    index.go_on()
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "2 requests are open, the most that are taken" in error.details()
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    unpack(error, [info, retry])
    assert (info.reason, info.domain) == ("OverloadedError", "decoder.draftwell")
    assert retry.retry_delay.seconds == 1
    assert [stream.result().token_ids for stream in taken] == [each.token_ids for each in plain]


def test_a_client_waits_for_its_turn_at_a_full_queue(
    small: Client, small_address: str, index: SteppedTrie, decoder: Client
) -> None:
    plain = decoder.generate("the model reads", stop=STOP, drafts=Drafts.none()).result()
    taken = [small.generate("the model reads", stop=STOP, drafts=asking("taken")) for _ in range(3)]
    assert index.next_asked() == ["taken"]
    with grpc.insecure_channel(small_address) as channel:
        refusal_of(DecoderServiceStub(channel))
    with Client(small_address, retry=False) as hasty, pytest.raises(Overloaded):
        hasty.generate("x", stop=STOP).result()
    index.go_on()
    assert [stream.result().token_ids for stream in taken] == [plain.token_ids] * 3


def refusal_of(stub: DecoderServiceStub) -> grpc.RpcError:
    """The error of a third request; both others are taken by then, or soon."""
    caught: list[grpc.RpcError] = []

    def is_refused() -> bool:
        call = stub.Generate(pb.GenerateRequest(text="x", stop=pb.StopConditions(max_tokens=1)))
        try:
            assert next(iter(call)).WhichOneof("event") == "started"
            call.cancel()
        except grpc.RpcError as error:
            caught.append(error)
        return bool(caught)

    poll(is_refused)
    return caught[0]


def unpack(error: grpc.RpcError, details: list[Message]) -> None:
    """Fill the messages from the error's details, in order."""
    for packed, detail in zip(rpc_status.from_call(error).details, details, strict=True):
        assert packed.Unpack(detail)


def test_a_queue_that_was_full_takes_requests_again(small: Client, index: SteppedTrie) -> None:
    taken = [small.generate("x", stop=ENDLESS, drafts=asking("taken")) for _ in range(2)]
    assert index.next_asked() == ["taken"]
    for stream in taken:
        stream.cancel()
    index.go_on()

    def is_taken() -> bool:
        try:
            small.generate("x", stop=Stop(max_tokens=2, ignore_eos=True)).result()
        except Overloaded:
            return False
        return True

    poll(is_taken)
