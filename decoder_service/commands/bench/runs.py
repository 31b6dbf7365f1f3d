"""The benchmark's measurement: every system on the same prompts, side by side against drift.

Prompts are taken in groups of as many as run at once. Each group is decoded by one system after the other, in an
order that moves on by one from group to group, so that no system always has the quieter moment. Each system that
drafts from the index has a namespace of its own, which it alone teaches, and which is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from decoder_service.client import Client, Generation, Stop, chat
from decoder_service.commands.bench.peer import Peer
from decoder_service.commands.bench.prompts import BenchPrompt
from decoder_service.commands.bench.samples import GroupRun, Sample
from decoder_service.commands.bench.systems import System
from decoder_service.commands.demo.passes import wait_until_learned
from decoder_service.commands.index_client import IndexClient

_WARM_UP = BenchPrompt("warm-up", "warm-up", "Say hello, hello, hello and hello again.")
_WARM_UP_TOKENS = 24


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    prompts: Sequence[BenchPrompt]
    systems: Sequence[System]
    concurrencies: Sequence[int]
    max_tokens: int
    passes: int  # over all prompts
    lessons: Sequence[BenchPrompt]  # that a system is taught before
    namespace: str  # beginning of the namespaces' names


class View(Protocol):
    """Is told what happens, as it happens."""

    def advance(self, what: str) -> None:
        """So many runs have ended; ``what`` is the newest."""

    def warn(self, text: str) -> None:
        """Something is not as it should be."""


class Benchmark:
    """Runs a plan on one decoder, its index and a peer. Raises ClientError where a call fails."""

    def __init__(self, client: Client, index: IndexClient | None, peer: Peer | None, view: View) -> None:
        self._client = client
        self._index = index
        self._peer = peer
        self._view = view
        self._taught: dict[str, list[Generation]] = {}

    def run(self, plan: Plan) -> list[GroupRun]:
        """Every run, in the order in which they were made."""
        runs: list[GroupRun] = []
        for concurrency in plan.concurrencies:
            systems = [each for each in plan.systems if each.drafts is not None or concurrency == 1]
            with self._namespaces(plan, systems, concurrency) as namespaces:
                self._prepare(plan, systems, namespaces)
                runs += self._passes(plan, systems, namespaces, concurrency)
        return runs

    def _passes(
        self, plan: Plan, systems: Sequence[System], namespaces: dict[str, str], concurrency: int
    ) -> Iterator[GroupRun]:
        starts = range(0, len(plan.prompts), concurrency)
        for pass_number in range(1, plan.passes + 1):
            for group, start in enumerate(starts):
                prompts = plan.prompts[start : start + concurrency]
                first = group % len(systems)
                for system in [*systems[first:], *systems[:first]]:
                    samples, wall_s = self._decode(system, prompts, namespaces, plan.max_tokens)
                    self._view.advance(f"{system.name}: {prompts[0].name}")
                    yield GroupRun(system.name, concurrency, pass_number, group, tuple(samples), wall_s)

    def _prepare(self, plan: Plan, systems: Sequence[System], namespaces: dict[str, str]) -> None:
        """Make everything do once what it does slowly the first time; then teach what is to be taught."""
        for system in systems:
            self._decode(system, [_WARM_UP], {}, _WARM_UP_TOKENS)
        for system in systems:
            if system.is_taught_before:
                for lesson in plan.lessons:
                    self._decode(system, [lesson], namespaces, plan.max_tokens)
                    self._view.advance(f"teaching {system.name}: {lesson.name}")

    def _decode(
        self, system: System, prompts: Sequence[BenchPrompt], namespaces: dict[str, str], max_tokens: int
    ) -> tuple[list[Sample], float]:
        """The samples, and the seconds that all of them took together."""
        if system.drafts is None:
            samples = [self._by_peer(system, prompt, max_tokens) for prompt in prompts]
            return samples, sum(sample.arrivals_s[-1] for sample in samples)
        namespace = namespaces.get(system.name, "")
        drafts = system.in_namespace(namespace) if namespace else system.in_namespace("")
        stop = Stop(max_tokens=max_tokens)

        def one(prompt: BenchPrompt) -> Generation:
            return self._client.generate(chat(prompt.text), stop=stop, drafts=drafts).result()

        began_s = time.monotonic()
        with ThreadPoolExecutor(len(prompts)) as pool:
            generations = list(pool.map(one, prompts))
        wall_s = time.monotonic() - began_s
        for prompt, generation in zip(prompts, generations, strict=True):
            for warning in generation.warnings:
                self._view.warn(f"{system.name}, {prompt.name}: {warning}")
        if namespace:
            self._wait_until_learned(namespace, generations)
        return [Sample.of(*pair) for pair in zip(prompts, generations, strict=True)], wall_s

    def _by_peer(self, system: System, prompt: BenchPrompt, max_tokens: int) -> Sample:
        assert self._peer is not None
        token_ids = self._client.tokenize(chat(prompt.text))
        return self._peer.decode(prompt, token_ids, max_tokens, lookup=system.name == "hf-prompt-lookup")

    def _wait_until_learned(self, namespace: str, generations: Sequence[Generation]) -> None:
        assert self._index is not None
        taught = self._taught.setdefault(namespace, [])
        taught += generations
        if not wait_until_learned(self._index, namespace, taught):
            self._view.warn(f"the index has not learned all output of {namespace}")

    @contextmanager
    def _namespaces(
        self, plan: Plan, systems: Sequence[System], concurrency: int
    ) -> Iterator[dict[str, str]]:
        """An empty namespace for each system that drafts from the index, by its name; deleted on the way out."""
        model = self._client.model()
        names = {
            system.name: f"{plan.namespace}-{system.name}-{concurrency}"
            for system in systems
            if system.uses_index
        }
        with ExitStack() as stack:
            for name in names.values():
                assert self._index is not None
                self._index.create_namespace(name, model.fingerprint, model.vocab_size)
                stack.callback(self._index.delete_namespace, name)
            yield names
