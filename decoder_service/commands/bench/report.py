"""A benchmark's figures as a table and as JSON, with what they were measured on."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from decoder_service.client import Model
from decoder_service.commands.bench.figures import Figures, Ratio

_COLUMNS = (
    "system",
    "at once",
    "tokens/s",
    "tokens/step",
    "rows/token",
    "against plain",
    "against hf-generate",
    "first token ms",
    "token ms p50",
    "p99",
    "identical?",
)


def table_of(lines: Sequence[Figures]) -> Table:
    """One row a system, concurrency and pass; ratios with their quartiles."""
    table = Table(box=SIMPLE_HEAD)
    for heading in _COLUMNS:
        table.add_column(
            heading, justify="left" if heading == "system" else "right", no_wrap=heading == "system"
        )
    for line in lines:
        name = line.system if line.pass_number == 1 else f"{line.system}, pass {line.pass_number}"
        table.add_row(
            name,
            str(line.concurrency),
            f"{line.tokens_per_second:.1f}",
            f"{line.tokens_per_step:.2f}",
            "-" if line.rows_per_token is None else f"{line.rows_per_token:.1f}",
            _ratio(line.against_plain),
            _ratio(line.against_peer),
            f"{line.first_token_ms_p50:.0f}",
            f"{line.token_ms_p50:.1f}",
            f"{line.token_ms_p99:.1f}",
            _identical(line),
        )
    return table


def json_of(lines: Sequence[Figures], model: Model, num_prompts: int, max_tokens: int) -> dict[str, Any]:
    """All figures; ``command`` is the one that printed them."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "command": shlex.join(["draftwell", *sys.argv[1:]]),
        "machine": {"processor": platform.machine(), "cpus": os.cpu_count(), "system": platform.platform()},
        "model": {"name": model.name, "dtype": model.dtype, "device": model.device},
        "version": model.version,
        "num_prompts": num_prompts,
        "max_tokens": max_tokens,
        "systems": [{**asdict(line), "identical": line.identical} for line in lines],
    }


def _ratio(ratio: Ratio | None) -> str:
    return "-" if ratio is None else f"{ratio.median:.2f}x ({ratio.lower:.2f}-{ratio.upper:.2f})"


def _identical(line: Figures) -> str:
    if line.num_identical is None:
        return "-"
    return "yes" if line.identical else f"{line.num_identical} of {line.num_prompts}"
