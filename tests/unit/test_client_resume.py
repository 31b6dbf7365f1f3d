"""A client whose stream breaks goes on elsewhere, and its caller sees nothing of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import grpc
import pytest
from fake_pair import RETRY_S, FakePair, closed_port, fake_pair

from decoder_service.client import (
    Cancelled,
    Client,
    DeadlineExceeded,
    Drafts,
    Generation,
    InvalidRequest,
    Overloaded,
    Sampling,
    ServerError,
    Unreachable,
)

ANSWER = "hello né 🙂."
DRAFTED = Drafts(("own",))


@pytest.fixture
def first() -> Iterator[FakePair]:
    with fake_pair() as running:
        yield running


@pytest.fixture
def second() -> Iterator[FakePair]:
    with fake_pair() as running:
        yield running


@pytest.fixture
def client(first: FakePair, second: FakePair) -> Iterator[Client]:
    with Client((first.address, second.address)) as connected:
        yield connected


def undisturbed(second: FakePair, **options: object) -> Generation:
    with Client(second.address) as client:
        return client.generate("hello", sampling=Sampling(seed=5), **options).result()  # type: ignore[arg-type]


@pytest.mark.parametrize("break_after", range(1, 16))
def test_a_broken_stream_goes_on_elsewhere_wherever_it_broke(
    first: FakePair, second: FakePair, client: Client, break_after: int
) -> None:
    whole = undisturbed(second)
    first.decoder.break_after = break_after
    stream = client.generate("hello", sampling=Sampling(seed=5))
    steps = list(stream)
    assert [(step.token_ids, step.text) for step in steps] == [
        (step.token_ids, step.text) for step in whole.steps
    ]
    assert (stream.result().text, stream.result().num_resumes) == (ANSWER, 1)
    again = second.decoder.requests[-1]
    assert list(again.resume.token_ids) == list(whole.token_ids[:break_after])
    assert (again.text, again.sampling.seed) == ("hello", 5)


def test_the_seed_that_the_first_decoder_drew_is_kept(
    first: FakePair, second: FakePair, client: Client
) -> None:
    first.decoder.break_after = 3
    assert client.generate("hello").result().seed == 99
    assert second.decoder.requests[0].sampling.seed == 99
    assert second.decoder.requests[0].request_id == "r1"


def test_figures_are_summed_over_the_parts(first: FakePair, second: FakePair, client: Client) -> None:
    first.decoder.break_after = 2
    found = client.generate("hello", drafts=DRAFTED).result()
    whole = undisturbed(second, drafts=DRAFTED)
    # the fake decoder reports the figures of all tokens, the resumed ones too
    assert found.drafts.num_steps == whole.drafts.num_steps + 2
    assert found.drafts.num_drafted == whole.drafts.num_drafted + 2 * 6
    assert found.drafts.num_accepted == whole.drafts.num_accepted + 2 * 3
    assert found.drafts.accepted_len_histogram == (0, 0, 0, 2)


@pytest.mark.parametrize("break_after", [1, 5, 16, 20, 31])
def test_several_continuations_start_again_and_nothing_comes_twice(
    first: FakePair, second: FakePair, client: Client, break_after: int
) -> None:
    num_steps = 16
    first.decoder.break_after = break_after % num_steps
    if break_after > num_steps:
        first.decoder.break_in = 1
    results = client.generate("hello", sampling=Sampling(seed=5), logprobs=1, n=2).results()
    assert [each.text for each in results] == [ANSWER] * 2
    assert [each.token_ids for each in results] == [undisturbed(second).token_ids] * 2
    assert [len(each.logprobs) for each in results] == [num_steps] * 2
    assert results[0].drafts == undisturbed(second).drafts


def test_the_parts_of_steps_that_came_before_are_cut_off(
    first: FakePair, second: FakePair, client: Client
) -> None:
    """The repetition has other steps than the first time, as it may have other drafts."""
    first.decoder.break_after = 6
    second.decoder.step_len = 4
    stream = client.generate("hello", n=2, logprobs=0)
    assert stream.results()[0].text == stream.results()[1].text == ANSWER
    cut = next(step for step in stream.results()[0].steps if len(step.token_ids) == 2)
    assert (cut.text, len(cut.sources), len(cut.logprobs)) == ("né"[:1], 2, 2)


def test_decoders_that_disagree_are_an_error(first: FakePair, second: FakePair, client: Client) -> None:
    first.decoder.break_after = 2
    second.decoder.wrong_when_drafted = True
    with pytest.raises(ServerError, match="disagree about the tokens of continuation 0"):
        client.generate("hello", drafts=DRAFTED, n=2).result()


@pytest.mark.parametrize("retry", [True, False])
def test_what_the_decoder_refuses_is_not_tried_elsewhere(
    first: FakePair, second: FakePair, retry: bool
) -> None:
    first.decoder.break_after, first.decoder.break_code = 2, grpc.StatusCode.FAILED_PRECONDITION
    with Client((first.address, second.address), retry=retry) as client:
        stream = client.generate("hello")
        with pytest.raises(Exception, match="shutting down"):
            stream.result()
    assert second.decoder.requests == []


def test_an_error_of_the_decoder_itself_is_not_tried_elsewhere(
    first: FakePair, second: FakePair, client: Client
) -> None:
    first.decoder.break_after, first.decoder.fails = 2, True
    with pytest.raises(ServerError, match="a step failed"):
        client.generate("hello").result()
    assert second.decoder.requests == []


@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED])
def test_a_reset_connection_is_a_break(first: FakePair, client: Client, code: grpc.StatusCode) -> None:
    first.decoder.break_after, first.decoder.break_code = 2, code
    assert client.generate("hello").result().num_resumes == 1


def test_without_retry_a_stream_that_breaks_raises_after_the_steps_that_came(
    first: FakePair, second: FakePair
) -> None:
    first.decoder.break_after = 3
    with Client((first.address, second.address), retry=False) as client:
        stream = client.generate("hello")
        steps = [next(stream) for _ in range(3)]
        assert "".join(step.text for step in steps) == "hel"
        with pytest.raises(Unreachable, match="shutting down"):
            next(stream)
    assert second.decoder.requests == []


def test_a_single_decoder_is_tried_again_after_a_break(first: FakePair) -> None:
    first.decoder.break_after = 4
    with Client(first.address) as client:
        generation = client.generate("hello").result()
    assert (generation.text, generation.num_resumes) == (ANSWER, 1)


def test_an_address_that_cannot_be_reached_is_left_for_the_next(second: FakePair) -> None:
    with Client(f"{closed_port()}, {second.address}") as client:
        assert client.tokenize("né") == (110, 195, 169)
        assert client.address == second.address
    with Client([closed_port(), second.address]) as client:
        assert client.generate("hello").result().text == ANSWER


def test_where_no_address_can_be_reached_the_error_comes_at_once() -> None:
    with Client((closed_port(), closed_port())) as client, pytest.raises(Unreachable):
        client.generate("hello").result()


def test_a_break_that_does_not_heal_ends_with_the_deadline(first: FakePair) -> None:
    first.decoder.break_after, first.decoder.refuses_resumes = 2, True
    with Client((first.address, closed_port())) as client:
        stream = client.generate("hello", timeout=3.0)
        with pytest.raises((Unreachable, DeadlineExceeded)):
            stream.result()
    assert len(first.decoder.requests) > 2


def test_a_full_decoder_is_asked_again_after_the_time_that_it_named(first: FakePair) -> None:
    first.decoder.num_refusals = 3
    began = time.monotonic()
    with Client(first.address) as client:
        assert client.generate("hello").result().text == ANSWER
    assert time.monotonic() - began >= 3 * RETRY_S
    assert len(first.decoder.requests) == 4


def test_a_full_decoder_is_left_alone_without_retry_and_past_the_deadline(first: FakePair) -> None:
    first.decoder.num_refusals = 10**6
    with Client(first.address, retry=False) as client, pytest.raises(Overloaded, match="the queue is full"):
        client.generate("hello").result()
    with Client(first.address) as client, pytest.raises((Overloaded, DeadlineExceeded)):
        client.generate("hello", timeout=RETRY_S * 2.5).result()


def test_a_waiting_stream_can_be_cancelled(first: FakePair) -> None:
    first.decoder.num_refusals = 10**6
    with Client(first.address) as client:
        stream = client.generate("hello")
        threading.Timer(RETRY_S * 2, stream.cancel).start()
        with pytest.raises(Cancelled):
            stream.result()


def test_abort_asks_every_address(first: FakePair, second: FakePair) -> None:
    first.decoder.num_abortable, second.decoder.num_abortable = 2, 1
    with Client((first.address, second.address, closed_port())) as client:
        assert client.abort("mine") == 3
    with Client(closed_port()) as client, pytest.raises(Unreachable):
        client.abort("mine")


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no address of a decoder"):
        Client(" , ")
