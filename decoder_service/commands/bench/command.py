"""The benchmark from start to exit status."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from decoder_service.client import Client, Model
from decoder_service.commands.bench.figures import Figures, figures_of
from decoder_service.commands.bench.peer import Peer, PeerOptions, running_peer
from decoder_service.commands.bench.picture import check_picture, draw
from decoder_service.commands.bench.prompts import BenchPrompt, load_prompts
from decoder_service.commands.bench.report import json_of, table_of
from decoder_service.commands.bench.runs import Benchmark, Plan
from decoder_service.commands.bench.systems import System
from decoder_service.commands.demo.command import OutputDiffers
from decoder_service.commands.index_client import index_client
from decoder_service.commands.pair import Pair, PairOptions, start_pair
from decoder_service.commands.processes import running_services

TABLE_WIDTH = 150  # in a file


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What to run, and where to write."""

    pair: PairOptions
    running: Pair | None  # a pair that runs already; None: start one
    prompts: tuple[str, ...]
    lessons: tuple[str, ...]
    systems: tuple[System, ...]
    concurrencies: tuple[int, ...]
    limit: int | None
    max_tokens: int
    passes: int
    as_json: bool
    picture: Path | None


def run_bench(options: BenchOptions) -> None:
    """Run the benchmark and print its table, or JSON.

    Raises OutputDiffers where a way of this decoder gave other tokens than plain decoding, BadPrompts or NoPicture
    for bad arguments, ServiceFailed or ClientError where a service fails.
    """
    console = Console(highlight=False, stderr=options.as_json)
    if not console.is_terminal:
        console.width = TABLE_WIDTH
    prompts, lessons = load_prompts(options.prompts, options.limit), load_prompts(options.lessons)
    if options.picture is not None:
        check_picture(options.picture)
    model, lines = _measure(options, prompts, lessons, console)
    if options.as_json:
        print(json.dumps(json_of(lines, model, len(prompts), options.max_tokens), indent=2))
    else:
        console.print(table_of(lines))
        console.print(
            "tokens/s and ratios: output tokens over the whole time of a request, prefill included; "
            "ratios are of the same prompts side by side, median and quartiles.",
            style="dim",
        )
    if options.picture is not None:
        draw(lines, options.picture)
    ours = {system.name for system in options.systems if system.drafts is not None}
    differing = [line.system for line in lines if line.system in ours and line.identical is False]
    if differing:
        raise OutputDiffers(f"output differs from plain decoding: {', '.join(differing)}")


def _measure(
    options: BenchOptions, prompts: list[BenchPrompt], lessons: list[BenchPrompt], console: Console
) -> tuple[Model, list[Figures]]:
    with ExitStack() as stack:
        pair = options.running
        if pair is None:
            services = stack.enter_context(running_services(lambda name, line: None))
            pair = start_pair(services, options.pair, console)
        client = stack.enter_context(Client(pair.decoder))
        index = stack.enter_context(index_client(pair.trie))
        systems = _runnable(options.systems, client.server_info().sources, console)
        peer: Peer | None = None
        if any(system.drafts is None for system in systems):
            chosen = options.pair
            peer = stack.enter_context(running_peer(PeerOptions(chosen.model, chosen.dtype, chosen.device)))
        plan = Plan(
            prompts,
            systems,
            options.concurrencies,
            options.max_tokens,
            options.passes,
            lessons,
            f"bench-{secrets.token_hex(4)}",
        )
        with _progress(plan, console) as view:
            runs = Benchmark(client, index, peer, view).run(plan)
        return client.model(), figures_of(runs)


def _runnable(systems: tuple[System, ...], sources: tuple[str, ...], console: Console) -> list[System]:
    """Without those that need what the decoder lacks; ``all`` drafts with a draft model where there is one."""
    kept = []
    for system in systems:
        drafts = system.drafts
        if drafts is not None and (missing := set(drafts.sources) - set(sources)):
            console.print(f"left out: {system.name}, the decoder has no source {', '.join(sorted(missing))}")
        elif drafts is not None and system.name.startswith("all") and "model" in sources:
            kept.append(replace(system, drafts=replace(drafts, sources=(*drafts.sources, "model"))))
        else:
            kept.append(system)
    return kept


class _ProgressView:
    """A bar with the newest run beside it."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("warming up", total=total)

    def advance(self, what: str) -> None:
        self._progress.update(self._task, advance=1, description=what[:48])

    def warn(self, text: str) -> None:
        self._progress.console.print(f"warning: {text}", style="yellow")


@contextmanager
def _progress(plan: Plan, console: Console) -> Iterator[_ProgressView]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield _ProgressView(progress, num_runs(plan))


def num_runs(plan: Plan) -> int:
    """Groups and lessons that a plan takes."""
    total = 0
    for concurrency in plan.concurrencies:
        systems = [each for each in plan.systems if each.drafts is not None or concurrency == 1]
        total += plan.passes * -(-len(plan.prompts) // concurrency) * len(systems)
        total += len(plan.lessons) * sum(each.is_taught_before for each in systems)
    return total
