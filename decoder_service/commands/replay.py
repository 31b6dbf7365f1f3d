"""The ``draftwell replay`` command: recorded answers through the real drafting code, without a model."""

from __future__ import annotations

import json
import secrets
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from decoder_service.commands.index_client import IndexClient, index_client
from decoder_service.commands.pair import LOOPBACK
from decoder_service.commands.processes import Launch, running_services

if TYPE_CHECKING:
    from decoder_service.replay import ReplayLimits, Tally
    from decoder_service.replay_index import ReplayIndex
    from decoder_service.traces import Answer

OnStep = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What to replay, and how."""

    traces: Sequence[Path]
    budget: int  # nodes a step
    min_probability: float  # of a node's path
    sources: frozenset[str]  # of "own" and "index"
    trie: str | None  # address of a service that runs already; None: start one
    limit: int | None  # answers of each file
    as_json: bool


@dataclass(frozen=True, slots=True)
class Tenth:
    """The nodes of one tenth of predicted probability."""

    tenth: int  # 0: probabilities below 0.1
    predicted: float
    observed: float
    share: float  # of all nodes


@dataclass(frozen=True, slots=True)
class Figures:
    """What a replay came to."""

    tokens_per_step: float
    nodes_per_step: float
    steps: int
    tokens: int
    draft_us_p50: float
    calibration: list[Tenth]


def run_replay(options: ReplayOptions) -> None:
    """Replay every file from a cold start and print the figures.

    Raises BadTrace for a file that cannot be read, ServiceFailed, ClientError or IndexFailed where the index fails.
    """
    from decoder_service.traces import read_trace

    answers = {path: read_trace(path, options.limit) for path in options.traces}
    with _index_address(options) as address, _progress(answers) as on_step:
        tallies = {path: _replay_file(options, address, answers[path], on_step) for path in answers}
    figures = {str(path): figures_of(tally) for path, tally in tallies.items()}
    in_all = figures_of(_sum(list(tallies.values())))
    if options.as_json:
        print(json.dumps({"files": {name: asdict(each) for name, each in figures.items()}, **asdict(in_all)}))
    else:
        _print(figures, in_all)


@contextmanager
def _index_address(options: ReplayOptions) -> Iterator[str | None]:
    """Where the index is; None where no source asks it."""
    if "index" not in options.sources or options.trie is not None:
        yield options.trie
        return
    with running_services(lambda _name, _line: None) as services:
        launch = Launch("trie-service", "trie_service", ("--listen", LOOPBACK, "--redis", "embedded:"))
        with Console(stderr=True).status("starting trie-service"):
            address = services.start(launch, lambda _line: None)
        yield address


@contextmanager
def _progress(answers: Mapping[Path, Sequence[Answer]]) -> Iterator[OnStep]:
    """A bar on standard error where that is a terminal; takes the tokens of each step."""
    console = Console(stderr=True)
    columns = (
        TextColumn("replaying"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tokens"),
        TimeRemainingColumn(),
    )
    total = sum(answer.num_output for trace in answers.values() for answer in trace)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda num_tokens: progress.advance(task, num_tokens)


def _replay_file(
    options: ReplayOptions, address: str | None, answers: Sequence[Answer], on_step: OnStep
) -> Tally:
    from decoder_service.replay import ReplayLimits

    limits = ReplayLimits(options.budget, options.min_probability)
    if address is None or "index" not in options.sources:
        return _without_index(limits, answers, on_step)
    return _with_index(options, limits, address, answers, on_step)


def _without_index(limits: ReplayLimits, answers: Sequence[Answer], on_step: OnStep) -> Tally:
    from decoder_service.replay import cold_replay

    replay = cold_replay(limits, own=True)
    for answer in answers:
        replay.run(answer, on_step)
    return replay.tally


def _with_index(
    options: ReplayOptions,
    limits: ReplayLimits,
    address: str,
    answers: Sequence[Answer],
    on_step: OnStep,
) -> Tally:
    from decoder_service.replay import cold_replay
    from decoder_service.replay_index import FINGERPRINT, replay_index
    from decoder_service.traces import VOCAB_LIMIT

    with index_client(address) as client:
        namespace = f"replay-{secrets.token_hex(8)}"
        client.create_namespace(namespace, FINGERPRINT, VOCAB_LIMIT)
        try:
            with replay_index(address, namespace) as index:
                replay = cold_replay(limits, own="own" in options.sources, index=index)
                for number, answer in enumerate(answers, 1):
                    replay.run(answer, on_step)
                    _learn(client, index, answer, number)
        finally:
            client.delete_namespace(namespace)
    return replay.tally


def _learn(client: IndexClient, index: ReplayIndex, answer: Answer, number: int) -> None:
    index.learn(answer, lambda: client.learned(index.namespace).num_sequences, number)


def figures_of(tally: Tally) -> Figures:
    """Means and medians of what was counted."""
    steps = max(tally.num_steps, 1)
    return Figures(
        tokens_per_step=tally.num_tokens / steps,
        nodes_per_step=tally.num_nodes / steps,
        steps=tally.num_steps,
        tokens=tally.num_tokens,
        draft_us_p50=statistics.median(tally.draft_us or [0.0]),
        calibration=[
            Tenth(tenth, predicted / nodes, accepted / nodes, nodes / tally.num_nodes)
            for tenth, (nodes, predicted, accepted) in enumerate(
                zip(
                    tally.tenth_nodes.tolist(),
                    tally.tenth_predicted.tolist(),
                    tally.tenth_accepted.tolist(),
                    strict=True,
                )
            )
            if nodes
        ],
    )


def _sum(tallies: Sequence[Tally]) -> Tally:
    from decoder_service.replay import Tally

    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def _print(figures: Mapping[str, Figures], in_all: Figures) -> None:
    console = Console(highlight=False)
    table = Table("trace", box=None)
    for heading in ("tokens/step", "nodes/step", "steps", "tokens", "draft p50 us"):
        table.add_column(heading, justify="right")
    for name, each in [*figures.items(), ("in all", in_all)]:
        table.add_row(
            Path(name).name,
            f"{each.tokens_per_step:.2f}",
            f"{each.nodes_per_step:.1f}",
            str(each.steps),
            str(each.tokens),
            f"{each.draft_us_p50:.0f}",
        )
    console.print(table)
    calibration = Table("probability", "predicted", "observed", "share of nodes", box=None)
    for tenth in in_all.calibration:
        calibration.add_row(
            f"{tenth.tenth / 10:.1f}-{(tenth.tenth + 1) / 10:.1f}",
            f"{tenth.predicted:.3f}",
            f"{tenth.observed:.3f}",
            f"{tenth.share:.3f}",
        )
    console.print(calibration)
