"""What the demo found: every drafted run against its plain run, the medians, as table and as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.table import Table

from decoder_service.client import Generation, Model
from decoder_service.commands.demo.passes import Pass, Runs


@dataclass(frozen=True, slots=True)
class Comparison:
    """A drafted run against plain decoding of the same prompt."""

    generation: Generation
    speedup: float | None  # None where a rate cannot be told
    identical: bool

    @classmethod
    def of(cls, generation: Generation, output: Generation, pace: Generation) -> Comparison:
        """Compare the tokens with those of ``output``, the rate with that of ``pace``."""
        rate, plain_rate = generation.tokens_per_second, pace.tokens_per_second
        speedup = rate / plain_rate if rate and plain_rate else None
        return cls(generation, speedup, generation.token_ids == output.token_ids)


@dataclass(frozen=True, slots=True)
class PromptReport:
    """One prompt."""

    name: str
    plain: Generation
    plain_again: Generation | None
    cold: Comparison
    warm: Comparison

    @property
    def identical(self) -> bool:
        """Whether all runs gave the same tokens."""
        again = () if self.plain_again is None else self.plain_again.token_ids
        repeats = again == self.plain.token_ids[: len(again)]
        return repeats and self.cold.identical and self.warm.identical


@dataclass(frozen=True, slots=True)
class Report:
    """All prompts, and the model that decoded them."""

    model: Model
    prompts: tuple[PromptReport, ...]

    @property
    def all_identical(self) -> bool:
        """Whether no run of any prompt differs from plain decoding."""
        return all(prompt.identical for prompt in self.prompts)

    @property
    def median_speedup_cold(self) -> float | None:
        """Over prompts."""
        return _median([prompt.cold.speedup for prompt in self.prompts])

    @property
    def median_speedup_warm(self) -> float | None:
        """Over prompts."""
        return _median([prompt.warm.speedup for prompt in self.prompts])

    @property
    def draft_wait_ms_p50(self) -> float:
        """Median over the drafted runs of a run's median wait, in milliseconds."""
        runs = [run for prompt in self.prompts for run in (prompt.cold, prompt.warm)]
        return median(run.generation.timings.draft_wait_p50_ms for run in runs)


def report_of(model: Model, all_runs: Sequence[Runs]) -> Report:
    """Compare what was measured."""
    return Report(model, tuple(_prompt_report(runs) for runs in all_runs))


def _prompt_report(runs: Runs) -> PromptReport:
    return PromptReport(
        name=runs.prompt.name,
        plain=runs.plain,
        plain_again=runs.plain_again,
        cold=Comparison.of(runs.cold, runs.plain, runs.plain),
        warm=Comparison.of(runs.warm, runs.plain, runs.plain_again or runs.plain),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def report_json(report: Report) -> dict[str, object]:
    """The report as JSON values; speeds that cannot be told are null."""
    return {
        "all_identical": report.all_identical,
        "median_speedup_cold": report.median_speedup_cold,
        "median_speedup_warm": report.median_speedup_warm,
        "draft_wait_ms_p50": report.draft_wait_ms_p50,
        "prompts": [_prompt_json(prompt) for prompt in report.prompts],
        "model": asdict(report.model),
        "machine": machine(),
    }


def _prompt_json(prompt: PromptReport) -> dict[str, object]:
    again = prompt.plain_again
    return {
        "name": prompt.name,
        "tokens": len(prompt.plain.token_ids),
        "plain": _run_json(prompt.plain),
        "cold": _comparison_json(prompt.cold),
        "warm": _comparison_json(prompt.warm),
        "plain_again": None if again is None else _run_json(again),
    }


def _run_json(generation: Generation) -> dict[str, object]:
    first_s = generation.first_token_s
    return {
        "tokens_per_second": generation.tokens_per_second,
        "steps": generation.drafts.num_steps,
        "tokens_per_step": generation.tokens_per_step,
        "first_token_ms": None if first_s is None else first_s * 1000,
        "decode_ms": generation.timings.decode_ms,
        "prefill_ms": generation.timings.prefill_ms,
    }


def _comparison_json(comparison: Comparison) -> dict[str, object]:
    generation = comparison.generation
    return _run_json(generation) | {
        "speedup": comparison.speedup,
        "identical": comparison.identical,
        "draft_wait_ms_p50": generation.timings.draft_wait_p50_ms,
        "draft_wait_ms_max": generation.timings.draft_wait_max_ms,
        "sources": [asdict(source) for source in generation.drafts.sources],
    }


def machine() -> dict[str, object]:
    """Where it ran."""
    return {
        "processor": _processor(),
        "num_cpus": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


def report_table(report: Report) -> Table:
    """A row a run; speeds are against the plain run beside it."""
    title = f"{report.model.name}, {report.model.dtype} on {report.model.device}"
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("prompt")
    table.add_column("decoding")
    for heading in ("tokens", "steps", "tokens\nper step", "tokens/s", "speed\nto plain"):
        table.add_column(heading, justify="right")
    table.add_column("identical?")
    for prompt in report.prompts:
        table.add_row(prompt.name, Pass.PLAIN, *_run_cells(prompt.plain), "1.00x", "")
        table.add_row("", Pass.COLD, *_comparison_cells(prompt.cold))
        table.add_row("", Pass.WARM, *_comparison_cells(prompt.warm), end_section=True)
    cold, warm = times(report.median_speedup_cold), times(report.median_speedup_warm)
    verdict = _verdict(identical=report.all_identical)
    table.add_row("median", Pass.COLD, "", "", "", "", cold, verdict, style="bold")
    table.add_row("", Pass.WARM, "", "", "", "", warm, verdict, style="bold")
    return table


def _run_cells(generation: Generation) -> tuple[str, ...]:
    return (
        str(len(generation.token_ids)),
        str(generation.drafts.num_steps),
        f"{generation.tokens_per_step:.2f}",
        rate(generation),
    )


def _comparison_cells(comparison: Comparison) -> tuple[str, ...]:
    verdict = _verdict(identical=comparison.identical)
    return (*_run_cells(comparison.generation), times(comparison.speedup), verdict)


def _verdict(*, identical: bool) -> str:
    return "[green]yes[/green]" if identical else "[bold red]NO[/bold red]"


def rate(generation: Generation) -> str:
    """Tokens a second, for people."""
    value = generation.tokens_per_second
    return "-" if value is None else f"{value:.1f}"


def times(speedup: float | None) -> str:
    """A speedup, for people."""
    return "-" if speedup is None else f"{speedup:.2f}x"
