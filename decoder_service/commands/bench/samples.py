"""What one run of one prompt gave, by the client's clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from decoder_service.client import Generation
from decoder_service.commands.bench.prompts import BenchPrompt


@dataclass(frozen=True, slots=True)
class Sample:
    """One prompt decoded by one system."""

    prompt: BenchPrompt
    token_ids: tuple[int, ...]
    arrivals_s: tuple[float, ...]  # of each step that emitted, since the call
    step_lens: tuple[int, ...]  # tokens of each
    num_rows: int | None  # rows of decode steps: newest tokens and drafts; None where that is not told
    waits_ms: float = 0.0  # for drafts of the index, median of the steps

    @classmethod
    def of(cls, prompt: BenchPrompt, generation: Generation) -> Sample:
        """What a client of the decoder saw."""
        steps = [step for step in generation.steps if step.token_ids]
        return cls(
            prompt,
            generation.token_ids,
            tuple(step.elapsed_s for step in steps),
            tuple(len(step.token_ids) for step in steps),
            sum(1 + step.num_drafted for step in steps),
            generation.timings.draft_wait_p50_ms,
        )

    @property
    def num_steps(self) -> int:
        """Steps that emitted."""
        return len(self.step_lens)

    @property
    def token_gaps_s(self) -> list[float]:
        """For each step after the first, the time since the last one, a token."""
        pairs = zip(self.arrivals_s, self.arrivals_s[1:], self.step_lens[1:], strict=False)
        return [(later - earlier) / length for earlier, later, length in pairs for _ in range(length)]


@dataclass(frozen=True, slots=True)
class GroupRun:
    """Prompts decoded at once by one system."""

    system: str
    concurrency: int
    pass_number: int  # from 1
    group: int  # which prompts
    samples: tuple[Sample, ...]
    wall_s: float  # from the first call to the last token

    @property
    def num_tokens(self) -> int:
        """Of all its samples."""
        return sum(len(sample.token_ids) for sample in self.samples)

    @property
    def tokens_per_second(self) -> float:
        """Of all its samples together, prefill included."""
        return self.num_tokens / self.wall_s


def outputs(runs: Sequence[GroupRun]) -> dict[str, tuple[int, ...]]:
    """The tokens of each prompt, by its name."""
    return {sample.prompt.name: sample.token_ids for run in runs for sample in run.samples}
