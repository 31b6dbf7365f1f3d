"""What a benchmark's runs come to: a line for each system, concurrency and pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median, quantiles

from decoder_service.commands.bench.samples import GroupRun, outputs
from decoder_service.commands.bench.systems import BASE_PEER, PLAIN


@dataclass(frozen=True, slots=True)
class Ratio:
    """Of speeds, a group of prompts at a time: median and quartiles."""

    median: float
    lower: float
    upper: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Ratio | None:
        """None of nothing."""
        if not values:
            return None
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        lower, middle, upper = quantiles(values, n=4, method="inclusive")
        return cls(middle, lower, upper)


@dataclass(frozen=True, slots=True)
class Figures:
    """One system at one concurrency in one pass."""

    system: str
    concurrency: int
    pass_number: int
    num_prompts: int
    num_tokens: int
    tokens_per_second: float  # of all, prefill included
    tokens_per_step: float  # model steps that emitted
    rows_per_token: float | None  # of decode steps, newest tokens included
    against_plain: Ratio | None  # beside plain decoding of the same prompts at the same concurrency
    against_peer: Ratio | None  # beside hf-generate of the same prompt
    num_identical: int | None  # prompts whose tokens are those of plain decoding; None without plain decoding
    first_token_ms_p50: float
    token_ms_p50: float  # between tokens: a step's gap over its tokens
    token_ms_p99: float
    draft_wait_ms_p50: float
    accepted_len_histogram: tuple[int, ...]  # entry i: steps that emitted i tokens beside the model's own
    speed_by_task: dict[str, float]  # median against hf-generate, or else plain

    @property
    def identical(self) -> bool | None:
        """Whether every prompt's tokens are those of plain decoding."""
        return None if self.num_identical is None else self.num_identical == self.num_prompts


def figures_of(runs: Sequence[GroupRun]) -> list[Figures]:
    """In the order of concurrency, pass and first appearance."""
    return list(_lines(runs))


def _lines(runs: Sequence[GroupRun]) -> Iterator[Figures]:
    order = list(dict.fromkeys(run.system for run in runs))
    key = [(run.concurrency, run.pass_number, order.index(run.system)) for run in runs]
    ranked = [run for _, run in sorted(zip(key, runs, strict=True), key=lambda pair: pair[0])]
    for (concurrency, pass_number, system), part in groupby(
        ranked, key=lambda run: (run.concurrency, run.pass_number, run.system)
    ):
        own = list(part)
        beside = [run for run in runs if (run.concurrency, run.pass_number) == (concurrency, pass_number)]
        yield _figures(system, own, beside)


def _figures(system: str, own: Sequence[GroupRun], beside: Sequence[GroupRun]) -> Figures:
    samples = [sample for run in own for sample in run.samples]
    num_tokens = sum(len(sample.token_ids) for sample in samples)
    num_rows = [sample.num_rows for sample in samples if sample.num_rows is not None]
    gaps_ms = [gap * 1000 for sample in samples for gap in sample.token_gaps_s]
    plain = [run for run in beside if run.system == PLAIN]
    peer = [run for run in beside if run.system == BASE_PEER]
    expected = outputs(plain)
    return Figures(
        system,
        own[0].concurrency,
        own[0].pass_number,
        len(samples),
        num_tokens,
        num_tokens / sum(run.wall_s for run in own),
        num_tokens / sum(sample.num_steps for sample in samples),
        sum(num_rows) / num_tokens if num_rows else None,
        Ratio.of(_ratios(own, plain)),
        Ratio.of(_ratios(own, peer)),
        sum(sample.token_ids == expected[sample.prompt.name] for sample in samples) if expected else None,
        median(sample.arrivals_s[0] for sample in samples) * 1000,
        median(gaps_ms) if gaps_ms else 0.0,
        _percentile(gaps_ms, 99),
        median(sample.waits_ms for sample in samples),
        _histogram([length - 1 for sample in samples for length in sample.step_lens]),
        _by_task(own, peer or plain),
    )


def _ratios(runs: Sequence[GroupRun], base: Sequence[GroupRun]) -> list[float]:
    """Tokens a second of each group over those of the same group in ``base``."""
    speeds = {run.group: run.tokens_per_second for run in base}
    return [run.tokens_per_second / speeds[run.group] for run in runs if run.group in speeds]


def _by_task(runs: Sequence[GroupRun], base: Sequence[GroupRun]) -> dict[str, float]:
    """A group counts for the task of its first prompt."""
    tasks = dict.fromkeys(run.samples[0].prompt.task for run in runs)
    found = {
        task: _ratios([run for run in runs if run.samples[0].prompt.task == task], base) for task in tasks
    }
    return {task: median(ratios) for task, ratios in found.items() if ratios}


def _percentile(values: Sequence[float], percent: int) -> float:
    if len(values) < 2:
        return max(values, default=0.0)
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def _histogram(lengths: Sequence[int]) -> tuple[int, ...]:
    counts = Counter(lengths)
    return tuple(counts[length] for length in range(max(counts, default=-1) + 1))
