"""What ``trie-admin bench`` measures, on a small text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from trie_service.admin.bench_text import CONTEXT_LEN, bench_contexts, bench_texts
from trie_service.admin.commands import app
from trie_service.admin.errors import AdminError

KEYS = {
    "insert_tokens_per_second",
    "bytes_per_token",
    "suggest_us_p50",
    "suggest_us_p99",
    "batch64_ms_p50",
    "longest_pause_ms",
    "evicting_insert_tokens_per_second",
}


def traces(folder: Path) -> Path:
    rows = [
        {"id": "a", "turn": 0, "delta": [1, 2, 3], "out": [4, 5]},
        {"id": "a", "turn": 1, "delta": [6], "out": [7]},
        {"id": "b", "turn": 0, "delta": [8], "out": [9]},
    ]
    path = folder / "traces-few.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def test_half_of_the_tokens_are_from_the_traces_and_each_repetition_has_other_ids(tmp_path: Path) -> None:
    path = traces(tmp_path)
    texts = bench_texts([path], 1000, np.random.default_rng(1))
    assert sum(text.num_learned for text in texts) == 1000
    assert [text.tokens.tolist() for text in texts[:3]] == [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6, 7], [8, 9]]
    assert [text.context_len for text in texts[:3]] == [3, 6, 1]
    assert sum(text.num_learned for text in texts if len(text.tokens) < 100) == 500
    assert len({tuple(text.tokens.tolist()) for text in texts[:30]}) == 30
    in_folder = bench_texts([tmp_path], 1000, np.random.default_rng(1))
    assert all(
        np.array_equal(left.tokens, right.tokens) for left, right in zip(texts, in_folder, strict=True)
    )


def test_every_other_context_is_held() -> None:
    generator = np.random.default_rng(2)
    texts = bench_texts([], 20_000, generator)
    held = b"".join(text.tokens.tobytes() + b"|" for text in texts)
    contexts = [context for context in bench_contexts(texts, 40, generator) if len(context) == CONTEXT_LEN]
    assert len(contexts) > 30
    found = [context.tobytes() in held for context in bench_contexts(texts, 40, generator)]
    assert all(found[::2])
    assert sum(found[1::2]) < 3


def test_a_file_that_is_no_trace_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"text": "hello"}\n')
    with pytest.raises(AdminError, match=r"other\.jsonl is no trace"):
        bench_texts([path], 1000, np.random.default_rng(1))
    with pytest.raises(AdminError, match="holds no traces"):
        bench_texts([tmp_path], 1000, np.random.default_rng(1))


def test_the_command_prints_every_figure_and_its_spread(tmp_path: Path) -> None:
    path = str(traces(tmp_path))
    arguments = ["bench", "--traces", path, path, "--tokens", "10000", "--rounds", "2", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert set(printed["spread"]) == KEYS
    assert set(printed) == KEYS | {"max_order", "tokens", "nodes", "rounds", "spread"}
    assert all(0 < printed["spread"][key][0] <= printed[key] <= printed["spread"][key][1] for key in KEYS)
