"""One generation as it arrives."""

from __future__ import annotations

import time
from typing import Self

from draftwell.decoder.v1 import decoder_pb2 as pb

from decoder_service.client.errors import ServerError
from decoder_service.client.generation import Generation, Step
from decoder_service.client.resuming_call import ResumingCall
from decoder_service.client.wire import generation_of, step_of


class GenerationStream:
    """Iterates over the steps of a generation, of all its continuations; ``results`` has the whole of it.

    Dropping the stream, like ``cancel``, makes the server stop within a step. Iterating raises a
    ClientError where the call fails.
    """

    def __init__(self, call: ResumingCall, request: pb.GenerateRequest) -> None:
        self.request_id = request.request_id
        self._began_s = time.monotonic()
        self._call = call
        self._started = pb.Started()
        self._steps: list[Step] = []
        self._num_wanted = request.n or 1
        self._finished: dict[int, pb.Finished] = {}  # by continuation

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Step:
        for response in self._call:
            step = self._take(response)
            if step is not None:
                self._steps.append(step)
                return step
        raise StopIteration

    def result(self) -> Generation:
        """Wait for the end, whatever was iterated over before, and return everything of the first continuation."""
        return self.results()[0]

    def results(self) -> tuple[Generation, ...]:
        """Wait for the end, whatever was iterated over before, and return everything, one entry a continuation."""
        for _ in self:
            pass
        if len(self._finished) < self._num_wanted:
            raise ServerError(f"the stream from {self._call.address} ended before the generation did")
        return tuple(self._generation(index) for index in range(self._num_wanted))

    @property
    def prompt_text(self) -> str:
        """The prompt, where echo was asked for and the first step has arrived."""
        return self._started.prompt_text

    def cancel(self) -> None:
        """Stop. Iterating on raises Cancelled."""
        self._call.cancel()

    def _take(self, response: pb.GenerateResponse) -> Step | None:
        elapsed_s = time.monotonic() - self._began_s
        match response.WhichOneof("event"):
            case "step":
                return step_of(response.step, elapsed_s)
            case "started":
                self._started = response.started
            case "finished":
                finished = response.finished
                self._finished[finished.index] = finished
                if finished.text:
                    return Step((), (), finished.text, 0, elapsed_s, finished.index)
        return None

    def _generation(self, index: int) -> Generation:
        steps = [step for step in self._steps if step.index == index]
        return generation_of(self._started, steps, self._finished[index], self._call.num_resumes)
