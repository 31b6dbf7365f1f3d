"""The demo from start to exit status."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from decoder_service.client import Client
from decoder_service.commands.demo.passes import Measurement, Plan
from decoder_service.commands.demo.prompts import demo_prompts
from decoder_service.commands.demo.report import Report, report_json, report_of, report_table, times
from decoder_service.commands.demo.views import demo_view
from decoder_service.commands.index_client import index_client
from decoder_service.commands.pair import Pair, PairOptions, start_pair
from decoder_service.commands.processes import running_services

_PLAIN_AGAIN_UNTIL_S = 180.0  # so that a slow machine ends within five minutes too


class OutputDiffers(Exception):
    """A drafted run gave other tokens than plain decoding."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to run, and where to write."""

    pair: PairOptions
    running: Pair | None  # a pair that runs already; None: start one
    json_path: Path | None
    max_tokens: int
    limit: int | None  # prompts


def run_demo(options: DemoOptions) -> None:
    """Run the demo and print its table.

    Raises OutputDiffers where a run differs from plain decoding, ServiceFailed or ClientError where a
    service fails.
    """
    console = Console(highlight=False)
    with _pair(options, console) as pair:
        report = _measure(pair, options, console)
    console.print(report_table(report))
    _explain(report, console)
    if options.json_path is not None:
        options.json_path.write_text(json.dumps(report_json(report), indent=2) + "\n", encoding="utf-8")
    if not report.all_identical:
        differing = ", ".join(prompt.name for prompt in report.prompts if not prompt.identical)
        raise OutputDiffers(f"output differs from plain decoding: {differing}")


@contextmanager
def _pair(options: DemoOptions, console: Console) -> Iterator[Pair]:
    if options.running is not None:
        yield options.running
        return
    with running_services(lambda name, line: None) as services:
        yield start_pair(services, options.pair, console)


def _measure(pair: Pair, options: DemoOptions, console: Console) -> Report:
    prompts = demo_prompts()[: options.limit]
    namespace = f"demo-{secrets.token_hex(4)}"
    plan = Plan(prompts, namespace, options.max_tokens, _PLAIN_AGAIN_UNTIL_S)
    with Client(pair.decoder) as client, index_client(pair.trie) as index:
        with demo_view(console, num_runs=4 * len(prompts)) as view:
            runs = Measurement(client, index, plan, view).run()
        return report_of(client.model(), runs)


def _explain(report: Report, console: Console) -> None:
    cold, warm = times(report.median_speedup_cold), times(report.median_speedup_warm)
    verdict = "every output identical" if report.all_identical else "OUTPUTS DIFFER"
    console.print(
        f"median speed against plain decoding: {cold} with a cold index, {warm} with a warm one; {verdict}; "
        f"median wait for a draft {report.draft_wait_ms_p50:.2f} ms"
    )
    console.print(
        "tokens/s: tokens after the first step over the time from its arrival at the client to the last "
        "step's; speed: against the plain run beside it in time.",
        style="dim",
    )
