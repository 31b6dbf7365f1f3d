"""The demo's measurement: every prompt plain, with a cold index and with a warm one.

Machines drift, so each drafted run is compared with a plain run right beside it: plain and cold runs
alternate, then warm and repeated plain runs do. The cold runs use a fresh namespace and teach it, so a
prompt finds there what the prompts before it taught; the warm runs read the same namespace and teach
nothing. A repeated plain run only tells the pace, so it has half the tokens; once
``plain_again_until_s`` is over, warm runs are compared with the first plain run instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from decoder_service.client import Client, Drafts, Generation, Step, Stop, chat
from decoder_service.commands.demo.prompts import DemoPrompt
from decoder_service.commands.index_client import IndexClient, Learned

SOURCES = ("own", "index")
_POLL_S = 0.02
_LEARN_TIMEOUT_S = 30.0
_WARM_UP = chat("Say hello.")
_WARM_UP_TOKENS = 16


class Pass(StrEnum):
    """How a prompt is decoded."""

    PLAIN = "plain"
    COLD = "cold"
    WARM = "warm"
    PLAIN_AGAIN = "plain again"


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs of one prompt."""

    prompt: DemoPrompt
    plain: Generation
    cold: Generation
    warm: Generation
    plain_again: Generation | None  # beside the warm run, half as long


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    prompts: Sequence[DemoPrompt]
    namespace: str  # must not exist yet
    max_tokens: int
    plain_again_until_s: float  # seconds after the first run


class View(Protocol):
    """Is told what happens, as it happens."""

    def run_started(self, prompt: DemoPrompt, which: Pass) -> None:
        """A run begins."""

    def step(self, step: Step) -> None:
        """It emitted something."""

    def run_finished(self, prompt: DemoPrompt, which: Pass, generation: Generation) -> None:
        """It has ended."""

    def warn(self, text: str) -> None:
        """Something is not as it should be."""


class Measurement:
    """Runs a plan on one decoder and its index. Raises ClientError where a call fails."""

    def __init__(self, client: Client, index: IndexClient, plan: Plan, view: View) -> None:
        self._client = client
        self._index = index
        self._plan = plan
        self._view = view

    def run(self) -> list[Runs]:
        """Measure every prompt."""
        with _namespace(self._client, self._index, self._plan.namespace):
            self._warm_up()
            began_s = time.monotonic()
            first = list(self._plain_and_cold())
            return [self._warm(*runs, began_s) for runs in first]

    def _warm_up(self) -> None:
        """Make both services do once what they do slowly the first time."""
        namespace = f"{self._plan.namespace}-warm-up"
        stop = Stop(max_tokens=_WARM_UP_TOKENS)
        with _namespace(self._client, self._index, namespace):
            for learn in (True, False):
                drafts = Drafts(SOURCES, namespace=namespace, learn=learn)
                generation = self._client.generate(_WARM_UP, stop=stop, drafts=drafts).result()
                self._wait_until_learned(namespace, [generation])

    def _plain_and_cold(self) -> Iterator[tuple[DemoPrompt, Generation, Generation]]:
        namespace = self._plan.namespace
        taught: list[Generation] = []
        for prompt in self._plan.prompts:
            plain = self._decode(prompt, Pass.PLAIN, Drafts.none())
            cold = self._decode(prompt, Pass.COLD, Drafts(SOURCES, namespace=namespace, learn=True))
            taught.append(cold)
            self._wait_until_learned(namespace, taught)
            yield prompt, plain, cold

    def _warm(self, prompt: DemoPrompt, plain: Generation, cold: Generation, began_s: float) -> Runs:
        drafts = Drafts(SOURCES, namespace=self._plan.namespace, learn=False)
        warm = self._decode(prompt, Pass.WARM, drafts)
        plain_again = None
        if time.monotonic() - began_s < self._plan.plain_again_until_s:
            plain_again = self._decode(prompt, Pass.PLAIN_AGAIN, Drafts.none())
        return Runs(prompt, plain, cold, warm, plain_again)

    def _decode(self, prompt: DemoPrompt, which: Pass, drafts: Drafts) -> Generation:
        self._view.run_started(prompt, which)
        half = which is Pass.PLAIN_AGAIN
        stop = Stop(max_tokens=-(-self._plan.max_tokens // 2) if half else self._plan.max_tokens)
        stream = self._client.generate(prompt.messages, sampling=prompt.sampling, stop=stop, drafts=drafts)
        for step in stream:
            self._view.step(step)
        generation = stream.result()
        self._view.run_finished(prompt, which, generation)
        for warning in generation.warnings:
            self._view.warn(f"{prompt.name}, {which}: {warning}")
        return generation

    def _wait_until_learned(self, namespace: str, taught: Sequence[Generation]) -> None:
        """Wait until the index drafts from all that it was taught; warn if that takes too long."""
        if not wait_until_learned(self._index, namespace, taught):
            self._view.warn(f"the index has not learned all output within {_LEARN_TIMEOUT_S:g} s")


def wait_until_learned(index: IndexClient, namespace: str, taught: Sequence[Generation]) -> bool:
    """Wait until the index drafts from these outputs; False where that takes too long."""
    deadline_s = time.monotonic() + _LEARN_TIMEOUT_S
    while not has_learned(index.learned(namespace), taught):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def has_learned(learned: Learned, taught: Sequence[Generation]) -> bool:
    """Whether a namespace holds these outputs, end tokens perhaps left out, with nothing pending."""
    num_tokens = sum(max(len(generation.token_ids) - 1, 0) for generation in taught)
    return (
        learned.num_pending == 0 and learned.num_sequences >= len(taught) and learned.num_tokens >= num_tokens
    )


@contextmanager
def _namespace(client: Client, index: IndexClient, name: str) -> Iterator[None]:
    """Keep a namespace for the served model."""
    model = client.model()
    index.create_namespace(name, model.fingerprint, model.vocab_size)
    try:
        yield
    finally:
        index.delete_namespace(name)
