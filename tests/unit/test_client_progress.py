"""What is new of a stream that comes again: nothing is missing and nothing comes twice, wherever steps are cut."""

from __future__ import annotations

import codecs
import random
from collections.abc import Iterator

import pytest
from draftwell.decoder.v1 import decoder_pb2 as pb

from decoder_service.client.errors import ServerError
from decoder_service.client.progress import Progress

TEXT = "né 🙂 東京 <en> end"
TOKENS = list(TEXT.encode())
NUM_ROUNDS = 200


def steps_of(index: int, rng: random.Random) -> Iterator[pb.GenerateResponse]:
    """Steps of random lengths; text lags where a character is incomplete."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    start = 0
    while start < len(TOKENS):
        end = min(start + rng.randint(1, 7), len(TOKENS))
        tokens = TOKENS[start:end]
        step = pb.Step(
            token_ids=tokens,
            text=decode(bytes(tokens)),
            sources=[pb.TOKEN_SOURCE_OWN] * (len(tokens) - 1) + [pb.TOKEN_SOURCE_MODEL],
            index=index,
            logprobs=[pb.Logprobs(logprob=-token) for token in tokens],
        )
        yield pb.GenerateResponse(step=step)
        start = end
    yield pb.GenerateResponse(finished=pb.Finished(index=index, text="."))


def stream_of(num: int, rng: random.Random) -> list[pb.GenerateResponse]:
    """The messages of all continuations, mixed, each one's in order."""
    started = [pb.GenerateResponse(started=pb.Started(request_id="r", seed=7))]
    waiting = [list(steps_of(index, rng)) for index in range(num)]
    while any(waiting):
        started.append(rng.choice([steps for steps in waiting if steps]).pop(0))
    return started


@pytest.mark.parametrize("seed", range(NUM_ROUNDS))
def test_a_stream_that_breaks_again_and_again_arrives_once(seed: int) -> None:
    rng = random.Random(seed)
    progress = Progress(pb.GenerateRequest(n=3))
    taken: list[pb.GenerateResponse] = []
    for is_last in (False, False, True):
        messages = stream_of(3, rng)
        arriving = messages if is_last else messages[: rng.randint(0, len(messages) - 1)]
        taken += [new for message in arriving if (new := progress.take(message)) is not None]
        again = progress.next_request()
        assert not again.HasField("resume")
    assert progress.is_finished
    assert [each.WhichOneof("event") for each in taken].count("started") == 1
    for index in range(3):
        steps = [each.step for each in taken if each.HasField("step") and each.step.index == index]
        assert [token for step in steps for token in step.token_ids] == TOKENS
        assert "".join(step.text for step in steps) == TEXT
        assert [round(-each.logprob) for step in steps for each in step.logprobs] == TOKENS
        assert all(len(step.sources) == len(step.token_ids) for step in steps)
        assert [each.finished.index for each in taken if each.HasField("finished")].count(index) == 1


def test_one_continuation_is_resumed_with_the_seed_the_name_and_the_tokens() -> None:
    progress = Progress(pb.GenerateRequest(text="x", request_id="mine"))
    assert progress.next_request() == pb.GenerateRequest(text="x", request_id="mine")
    assert progress.num_resumes == 0
    progress.take(pb.GenerateResponse(started=pb.Started(request_id="mine", seed=0)))
    progress.take(pb.GenerateResponse(step=pb.Step(token_ids=[4, 5])))
    again = progress.next_request()
    assert (list(again.resume.token_ids), again.request_id, again.text) == ([4, 5], "mine", "x")
    assert again.sampling.HasField("seed"), "a seed of zero is one"
    assert progress.num_resumes == 1


def test_a_continuation_that_was_not_asked_for_is_an_error() -> None:
    with pytest.raises(ServerError, match="continuation 1 that was not asked for"):
        Progress(pb.GenerateRequest()).take(pb.GenerateResponse(step=pb.Step(token_ids=[1], index=1)))
