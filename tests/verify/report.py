"""The report of the runs: a table for people, JSON for programs."""

from __future__ import annotations

import os
import platform
from typing import Any

import numba
import torch
import transformers
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.verify.matrix import Outcome
from tests.verify.row import Row

MAX_PROBLEMS = 5


def machine(num_threads: int) -> dict[str, str]:
    """What the results may depend on."""
    return {
        "cpu": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, {os.cpu_count()} cores",
        "threads": str(num_threads),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numba": numba.__version__,
        "system": platform.platform(),
    }


def as_json(outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Everything that the table says."""
    return {
        "passed": outcome.passed,
        "seconds": round(seconds, 1),
        "machine": machine(outcome.num_threads),
        "rows": [_row_json(row) for row in outcome.rows],
        "products": {
            dtype: [
                {"shape": each.shape, "row_counts": each.num_counts, "differing": each.differing}
                for each in products
            ]
            for dtype, products in outcome.products.items()
        },
    }


def show(outcome: Outcome, seconds: float, console: Console) -> None:
    """Print the table, what differs, and the verdict."""
    table = Table(box=SIMPLE_HEAD)
    for column in ("dtype", "mode", "plain decoding against"):
        table.add_column(column)
    for column in ("prompts", "tokens", "tokens/step", "identical", "equal logits", "equal KV"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for row in outcome.rows:
        table.add_row(*_cells(row))
    console.print(table)
    _show_products(outcome, console)
    for row in outcome.rows:
        _show_notes(row, console)
    console.print(
        ", ".join(f"{name} {value}" for name, value in machine(outcome.num_threads).items()), soft_wrap=True
    )
    verdict = "every bit is equal" if outcome.passed else "THERE ARE DIFFERENCES"
    console.print(f"{verdict} ({seconds:.0f} s)", style="bold green" if outcome.passed else "bold red")


def _cells(row: Row) -> list[str]:
    per_step = "-" if row.tokens_per_step is None else f"{row.tokens_per_step:.2f}"
    equal = ["-" if count is None else str(count) for count in (row.num_same_logits, row.num_same_cache)]
    ties = f", {len(row.near_ties)} near ties" if row.near_ties else ""
    return [
        row.dtype,
        row.mode,
        row.way,
        str(row.num_prompts),
        str(row.num_tokens),
        per_step,
        str(row.num_identical),
        *equal,
        ("pass" if row.passed else "FAIL") + ties,
    ]


def _show_products(outcome: Outcome, console: Console) -> None:
    for dtype, products in outcome.products.items():
        failed = [f"{each.shape} at {each.differing} rows" for each in products if not each.passed]
        told = (
            f"differ in {'; '.join(failed)}" if failed else "give a row the same bits at every number of rows"
        )
        console.print(f"{dtype}: matrix products of {len(products)} shapes {told}", soft_wrap=True)


def _show_notes(row: Row, console: Console) -> None:
    for kind, notes in (("near tie", row.near_ties), ("DIFFERENT", row.problems)):
        for note in notes[:MAX_PROBLEMS]:
            console.print(f"{kind}: {row.dtype} {row.mode}, {row.way}: {note}", soft_wrap=True, markup=False)
        if len(notes) > MAX_PROBLEMS:
            console.print(f"{kind}: {len(notes) - MAX_PROBLEMS} more")


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "dtype": row.dtype,
        "mode": row.mode,
        "against": row.way,
        "prompts": row.num_prompts,
        "tokens": row.num_tokens,
        "tokens_per_step": row.tokens_per_step,
        "identical": row.num_identical,
        "equal_logits": row.num_same_logits,
        "equal_kv": row.num_same_cache,
        "near_ties": row.near_ties,
        "problems": row.problems,
        "passed": row.passed,
    }
