from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from decoder_service.traces import BadTrace, read_trace

LINES = (
    {"id": "a", "turn": 0, "delta": [1, 2], "out": [3]},
    {"id": "a", "turn": 1, "delta": [4], "out": [5, 6]},
    {"id": 7, "turn": 0, "delta": [8], "out": [9]},
)


def write(folder: Path, lines: Sequence[object], name: str = "trace.jsonl") -> Path:
    path = folder / name
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_a_context_is_what_the_conversation_held_so_far(tmp_path: Path, name: str) -> None:
    answers = read_trace(write(tmp_path, LINES, name))
    assert [answer.text.tolist() for answer in answers] == [[1, 2, 3], [1, 2, 3, 4, 5, 6], [8, 9]]
    assert [answer.context_len for answer in answers] == [2, 4, 1]


def test_a_limit_reads_no_further(tmp_path: Path) -> None:
    assert len(read_trace(write(tmp_path, [*LINES, "broken"]), limit=2)) == 2


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: "),
        ("[]", 'line 2: not an object with "id"'),
        ({"id": 1, "delta": [1]}, 'line 2: not an object with "id"'),
        ({"id": 1, "delta": 3, "out": [1]}, 'line 2: "delta" is no list'),
        ({"id": 1, "delta": [1], "out": [-1]}, "line 2: -1 in"),
        ({"id": 1, "delta": [1], "out": [True]}, "line 2: True in"),
        ({"id": 1, "delta": [1], "out": [2**24]}, "line 2: 16777216 in"),
        ({"id": 1, "delta": [], "out": [1]}, "begins with an answer to nothing"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: object, complaint: str) -> None:
    with pytest.raises(BadTrace, match=complaint) as caught:
        read_trace(write(tmp_path, [LINES[0], line]))
    assert "trace.jsonl" in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl.gz"
    broken.write_bytes(gzip.compress(b"{}")[:-9])
    for path in (tmp_path / "missing.jsonl", broken):
        with pytest.raises(BadTrace, match=path.name):
            read_trace(path)


def test_a_file_without_an_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="no answer"):
        read_trace(write(tmp_path, []))
