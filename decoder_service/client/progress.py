"""What has arrived of a generation, so that it can go on elsewhere without a gap and without a repetition.

One continuation goes on with ``Resume``: the other decoder takes over the tokens, finds out from them which text it
would have sent, and sends the rest. Several continuations start again from the seed, and what comes a second time is
dropped here: the tokens of a seed are the same everywhere.
"""

from __future__ import annotations

from itertools import zip_longest

from draftwell.decoder.v1 import decoder_pb2 as pb

from decoder_service.client.errors import ServerError


class Progress:
    """Takes a stream's messages, of however many calls, and hands on what is new."""

    def __init__(self, request: pb.GenerateRequest) -> None:
        self._request = request
        self._started: pb.Started | None = None
        self._continuations = [_Continuation() for _ in range(request.n or 1)]
        self._of_call = pb.DraftStats()  # of the steps of the call that runs
        self._of_broken_calls = pb.DraftStats()
        self.num_resumes = 0

    @property
    def has_started(self) -> bool:
        """Whether a decoder has taken the request."""
        return self._started is not None

    @property
    def is_finished(self) -> bool:
        """Whether every continuation has ended."""
        return all(continuation.is_finished for continuation in self._continuations)

    def next_request(self) -> pb.GenerateRequest:
        """What goes on after the last message that was taken."""
        if self._started is None:
            return self._request
        self.num_resumes += 1
        request = pb.GenerateRequest()
        request.CopyFrom(self._request)
        request.request_id = self._started.request_id
        request.sampling.seed = self._started.seed
        if len(self._continuations) == 1:
            request.resume.CopyFrom(pb.Resume(token_ids=self._continuations[0].token_ids))
            _add(self._of_broken_calls, self._of_call)
            self._of_call.Clear()
        else:
            for continuation in self._continuations:
                continuation.start_again()
        return request

    def take(self, response: pb.GenerateResponse) -> pb.GenerateResponse | None:
        """What is new of a message, None where nothing is; raise ServerError for one that contradicts the others."""
        match response.WhichOneof("event"):
            case "started":
                is_new, self._started = self._started is None, self._started or response.started
                return response if is_new else None
            case "step":
                return self._take_step(response.step)
            case "finished":
                return self._take_finished(response)
        return None

    def _take_step(self, step: pb.Step) -> pb.GenerateResponse | None:
        new = self._of(step.index).rest_of(step)
        if new is None:
            return None
        _count(self._of_call, new)
        return pb.GenerateResponse(step=new)

    def _take_finished(self, response: pb.GenerateResponse) -> pb.GenerateResponse | None:
        continuation = self._of(response.finished.index)
        if continuation.is_finished:
            return None
        continuation.is_finished = True
        _add(response.finished.drafts, self._of_broken_calls)
        return response

    def _of(self, index: int) -> _Continuation:
        if index >= len(self._continuations):
            raise ServerError(f"the decoder sent a continuation {index} that was not asked for")
        return self._continuations[index]


class _Continuation:
    """The tokens and the length of the text that arrived, and how far a repetition has come."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        self.is_finished = False
        self._num_characters = 0
        self._num_repeated_tokens = 0
        self._num_repeated_characters = 0

    def start_again(self) -> None:
        """Everything comes once more."""
        self._num_repeated_tokens = self._num_repeated_characters = 0

    def rest_of(self, step: pb.Step) -> pb.Step | None:
        """The part of a step that did not come before, None where all of it did."""
        known = self.token_ids[self._num_repeated_tokens :][: len(step.token_ids)]
        if known != step.token_ids[: len(known)]:
            raise ServerError(f"the decoders disagree about the tokens of continuation {step.index}")
        num_known_characters = min(self._num_characters - self._num_repeated_characters, len(step.text))
        text = step.text[num_known_characters:]
        self.token_ids += step.token_ids[len(known) :]
        self._num_characters += len(text)
        self._num_repeated_tokens += len(step.token_ids)
        self._num_repeated_characters += len(step.text)
        return _without(step, len(known), text)


def _without(step: pb.Step, num_tokens: int, text: str) -> pb.Step | None:
    """The step without its first tokens, with that text; None where no token is left."""
    if num_tokens == 0:
        return step
    if num_tokens == len(step.token_ids):
        return None
    return pb.Step(
        token_ids=step.token_ids[num_tokens:],
        text=text,
        sources=step.sources[num_tokens:],
        num_drafted=step.num_drafted,
        index=step.index,
        logprobs=step.logprobs[num_tokens:],
    )


def _count(stats: pb.DraftStats, step: pb.Step) -> None:
    """Add a step as its decoder would have counted it."""
    num_accepted = sum(source != pb.TOKEN_SOURCE_MODEL for source in step.sources)
    histogram = [0] * num_accepted + [1]
    one = pb.DraftStats(
        num_steps=1,
        num_drafted=step.num_drafted,
        num_accepted=num_accepted,
        accepted_len_histogram=histogram,
    )
    _add(stats, one)


def _add(stats: pb.DraftStats, other: pb.DraftStats) -> None:
    """Add all but the figures of single sources: steps do not tell who drafted in vain."""
    stats.num_steps += other.num_steps
    stats.num_drafted += other.num_drafted
    stats.num_accepted += other.num_accepted
    histograms = zip_longest(stats.accepted_len_histogram, other.accepted_len_histogram, fillvalue=0)
    stats.accepted_len_histogram[:] = [one + more for one, more in histograms]
