"""The losslessness runs must be able to fail: each difference that they look for is made here."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from tiny_model import VOCAB, loaded, tiny_model
from typer.testing import CliRunner

import tests.verify.__main__ as command
from decoder_service.draft import DraftAsk, DraftTree
from decoder_service.forest import Forest
from decoder_service.products import Product, Shape, check_product
from decoder_service.sampling import SamplingParams
from tests.verify.cases import cases
from tests.verify.decode import Decoded, decode, prefill, request, same_bits
from tests.verify.matrix import Outcome, Plan, Progress
from tests.verify.prompts import load_prompts, spread
from tests.verify.proposals import GarbageSource, RecordedSource
from tests.verify.reference import Generated
from tests.verify.row import Row


@pytest.fixture(scope="module")
def plain() -> Decoded:
    prompt = np.arange(2, 22, dtype=np.int32)
    return decode(loaded(tiny_model("llama", torch.bfloat16)), [request(prompt, ignore_eos=True)])[0]


def one_bit_off(tensor: torch.Tensor) -> torch.Tensor:
    changed = tensor.contiguous().clone()
    changed.view(torch.int16).flatten()[5] ^= 1
    return changed


def row_of(plain: Decoded, other: Decoded) -> Row:
    row = Row("bfloat16", "greedy", "drafts")
    row.add_decoded("prompt", plain, other)
    return row


def test_equal_runs_pass(plain: Decoded) -> None:
    row = row_of(plain, plain)
    assert row.passed
    assert (row.num_identical, row.num_same_logits, row.num_same_cache) == (1, 1, 1)


@pytest.mark.parametrize("part", ["logits", "keys", "values"])
def test_one_bit_is_enough_to_fail(plain: Decoded, part: str) -> None:
    changed = replace(plain.computed, **{part: one_bit_off(getattr(plain.computed, part))})
    assert not row_of(plain, replace(plain, computed=changed)).passed
    row = Row("bfloat16", "greedy", "prefill")
    row.add_prefill("prompt", plain, changed)
    assert not row.passed


def test_a_prefill_that_would_choose_another_token_fails(plain: Decoded) -> None:
    logits = plain.computed.logits.clone()
    logits[3, plain.output[3] ^ 1] = logits[3].max() + 1
    row = Row("bfloat16", "greedy", "prefill")
    row.add_prefill("prompt", plain, replace(plain.computed, logits=logits))
    assert row.num_identical == 0
    assert not row.passed


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: replace(plain, output=[*plain.output[:4], plain.output[4] ^ 1, *plain.output[5:]]),
        lambda plain: replace(plain, output=plain.output[:-1]),
        lambda plain: replace(plain, shown=plain.shown + "x"),
        lambda plain: replace(plain, finished=replace(plain.finished, reason=2)),
    ],
    ids=["another token", "a token less", "another text", "another end"],
)
def test_another_output_fails(plain: Decoded, change: Callable[[Any], Any]) -> None:
    row = row_of(plain, change(plain))
    assert not row.passed
    assert row.num_identical == 0


@pytest.mark.parametrize(("margin", "passes"), [(1e-5, True), (1e-3, False)])
def test_only_a_near_tie_may_differ_from_transformers(plain: Decoded, margin: float, passes: bool) -> None:
    theirs = plain.output.copy()
    theirs[3] ^= 1
    logits = [torch.zeros(1, VOCAB) for _ in theirs]
    logits[3][0, theirs[3]] = margin
    row = Row("float32", "greedy", "generate")
    row.add_generated("prompt", plain, Generated(theirs, tuple(logits)))
    assert (row.passed, len(row.near_ties), len(row.problems)) == (passes, int(passes), int(not passes))


@pytest.mark.parametrize("change", [lambda tokens: tokens[:-1], lambda tokens: [*tokens, 3]])
def test_another_length_than_transformers_fails(plain: Decoded, change: Callable[[Any], Any]) -> None:
    theirs = change(plain.output)
    row = Row("float32", "greedy", "generate")
    row.add_generated("prompt", plain, Generated(theirs, tuple(torch.zeros(1, VOCAB) for _ in theirs)))
    assert not row.passed


def test_a_row_without_prompts_does_not_pass() -> None:
    assert not Row("bfloat16", "greedy", "drafts").passed


def test_same_bits_tells_zeros_apart_and_takes_nan_as_itself() -> None:
    nan = torch.tensor([float("nan"), 1.0])
    assert same_bits(nan, nan.clone())
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.zeros(2), torch.zeros(3))
    assert not same_bits(torch.zeros(2), torch.zeros(2, dtype=torch.int32))


def test_a_product_whose_order_depends_on_the_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [4, 8, 12, 48]
    assert check_product(Shape(256, 64), torch.float32, counts).passed
    linear = torch.nn.functional.linear

    def reordered(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        backwards = rows.shape[-2] == 8
        return linear(rows.flip(-1), weight.flip(-1), bias) if backwards else linear(rows, weight, bias)

    monkeypatch.setattr(torch.nn.functional, "linear", reordered)
    assert check_product(Shape(256, 64), torch.float32, counts).differing == [8]


def ask(text: list[int], max_nodes: int = 24) -> DraftAsk:
    return DraftAsk(1, np.array(text, dtype=np.int32), max_nodes, "")


def drafts_of(source: RecordedSource | GarbageSource, asks: list[DraftAsk]) -> list[DraftTree]:
    source.begin(asks)
    return source.collect()


def test_recorded_drafts_hold_the_continuation_and_wrong_branches() -> None:
    recorded = np.random.default_rng(0).integers(0, VOCAB, 200).astype(np.int32)
    source = RecordedSource([recorded], VOCAB)
    trees = drafts_of(source, [ask(recorded[:length].tolist()) for length in range(1, 150)])
    num_right, num_wrong = [], []
    for length, tree in enumerate(trees, 1):
        forest = Forest.of(tree.tokens, tree.parents)
        right = {tuple(recorded[length : length + depth]) for depth in range(1, 40)}
        paths = [tuple(forest.tokens[forest.path_to(node)]) for node in range(len(forest))]
        assert len(set(paths)) == len(paths) <= 24
        num_right.append(sum(path in right for path in paths))
        num_wrong.append(sum(path not in right for path in paths))
    assert np.mean(num_right) > 5
    assert np.mean(num_wrong) > 3


def test_a_text_that_was_not_recorded_gets_no_draft() -> None:
    source = RecordedSource([np.array([1, 2, 3], dtype=np.int32)], VOCAB)
    assert [len(tree) for tree in drafts_of(source, [ask([1, 3]), ask([1, 2, 3])])] == [0, 0]


def test_garbage_is_a_tree_within_the_budget() -> None:
    source = GarbageSource(VOCAB)
    for tree in drafts_of(source, [ask([1, 2, 3], max_nodes=9) for _ in range(50)]):
        assert len(Forest.of(tree.tokens, tree.parents)) <= 9


def test_the_own_prompts_are_many_and_of_many_kinds() -> None:
    prompts = load_prompts()
    assert len(prompts) >= 60
    assert (
        len({prompt.text for prompt in prompts}) == len({prompt.name for prompt in prompts}) == len(prompts)
    )
    assert len({prompt.name.rsplit("-", 1)[0] for prompt in prompts}) >= 9


@pytest.mark.parametrize("name", ["lines.jsonl", "lines.jsonl.gz"])
def test_prompts_may_come_from_json_lines(tmp_path: Path, name: str) -> None:
    text = "\n".join(
        json.dumps({"id": f"q/{number}", "turns": [f"ask {number}", "more"]}) for number in range(3)
    )
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    prompts = load_prompts(tmp_path / name)
    assert [(prompt.name, prompt.text) for prompt in prompts] == [(f"q/{n}", f"ask {n}") for n in range(3)]


def test_a_limit_takes_prompts_of_all_kinds() -> None:
    prompts = load_prompts()
    assert len(spread(prompts, 10)) == 10
    assert len({prompt.name.rsplit("-", 1)[0] for prompt in spread(prompts, 10)}) >= 8
    assert spread(prompts, None) == spread(prompts, 1000) == prompts


def test_sampled_cases_use_every_kind_of_parameter_and_their_own_seeds() -> None:
    requests = cases([np.array([1], dtype=np.int32)] * 60, "sampled", 8)
    params = [each.sampling for each in requests]
    assert len({each.seed for each in params}) == 60
    assert all(each.temperature > 0 for each in params)
    for name in ("top_k", "top_p", "min_p", "repetition_penalty"):
        assert any(getattr(each, name) != getattr(SamplingParams(), name) for each in params)


@pytest.mark.parametrize("passes", [True, False])
def test_the_command_exits_with_1_when_anything_differs(
    plain: Decoded,
    passes: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    app = typer.Typer()
    app.command()(command.main)
    product = Product("64x64", 3, [] if passes else [8])

    def run(_plan: Plan, _progress: Progress) -> Outcome:
        return Outcome([row_of(plain, plain)], {"bfloat16": [product]}, 1)

    monkeypatch.setattr(command, "run_side_by_side", run)
    result = CliRunner().invoke(app, ["--limit", "1", "--json", str(tmp_path / "report.json")])
    report = json.loads((tmp_path / "report.json").read_text())
    assert (result.exit_code, report["passed"]) == (0 if passes else 1, passes)
    assert ("every bit is equal" in result.output) is passes


def test_a_prefill_gives_the_logits_that_were_asked_for() -> None:
    model = tiny_model("llama", torch.bfloat16)
    text = np.random.default_rng(0).integers(2, VOCAB, 100).astype(np.int32)
    whole, tail = prefill(model, text, 0, 100), prefill(model, text, 70, 32)
    assert same_bits(whole.logits[70:], tail.logits)
