"""``draftwell replay`` as a process, over a trie service that it starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def replay(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "decoder_service.commands.main", "replay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def figures(*arguments: str | Path) -> dict[str, Any]:
    done = replay("--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Eight conversations whose answers are the same text under different prompts."""
    random = np.random.default_rng(8)
    out = random.integers(0, 1000, 60).tolist()
    lines = [
        {"id": n, "turn": 0, "delta": random.integers(1000, 2000, 5).tolist(), "out": out} for n in range(8)
    ]
    path = tmp_path / "same-answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_answers_are_drafted_from_earlier_answers_and_counted(trace: Path) -> None:
    found = figures(trace)
    assert found["tokens"] == 480
    assert found["tokens_per_step"] == pytest.approx(480 / found["steps"])
    assert found["nodes_per_step"] > 0
    assert found["draft_us_p50"] > 0
    assert found["steps"] < 60 + 7 * 20  # the first answer is new, the others are not
    of_file = found["files"][str(trace)]
    assert {**of_file} == {key: value for key, value in found.items() if key != "files"}
    assert sum(tenth["share"] for tenth in found["calibration"]) == pytest.approx(1.0)
    assert figures(trace)["steps"] == found["steps"]


def test_without_the_index_nothing_is_known_of_other_answers(trace: Path) -> None:
    found = figures("--source", "own", trace)
    assert found["steps"] == found["tokens"] == 480


def test_a_limit_of_one_answer_and_of_no_nodes(trace: Path) -> None:
    found = figures("--limit", "1", "--budget", "0", trace)
    assert (found["tokens"], found["nodes_per_step"], found["calibration"]) == (60, 0.0, [])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["missing.jsonl"], "missing.jsonl"),
        (["--source", "model", "any.jsonl"], "'model' is no draft source"),
    ],
)
def test_what_cannot_be_replayed_is_named(arguments: list[str], complaint: str) -> None:
    done = replay(*arguments)
    assert done.returncode != 0
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
