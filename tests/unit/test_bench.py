"""``draftwell bench`` against a pair without a model."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_pair import FakePair, fake_pair
from typer.testing import CliRunner, Result

from decoder_service.client import Lookahead
from decoder_service.commands.app import app
from decoder_service.commands.bench.figures import Figures, figures_of
from decoder_service.commands.bench.prompts import BadPrompts, BenchPrompt, load_prompts
from decoder_service.commands.bench.samples import GroupRun, Sample
from decoder_service.commands.bench.systems import systems_of

PROMPT = BenchPrompt("p", "chat", "hello")


@pytest.fixture
def pair() -> Iterator[FakePair]:
    with fake_pair() as running:
        yield running


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts.jsonl.gz"
    lines = [
        {"id": f"p{i}", "task": "code" if i > 3 else "chat", "turns": [f"question {i}", "and?"]}
        for i in range(8)
    ]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    return str(path)


def bench(pair: FakePair, *arguments: str) -> Result:
    running = ["--decoder", pair.address, "--trie", pair.address]
    return CliRunner().invoke(app, ["bench", *running, *arguments])


def figures(result: Result) -> dict[tuple[str, int, int], dict[str, Any]]:
    lines = json.loads(result.stdout)["systems"]
    return {(line["system"], line["concurrency"], line["pass_number"]): line for line in lines}


def test_every_system_is_measured_on_every_prompt(pair: FakePair, prompts: str) -> None:
    systems = ["--systems", "plain,own,index,lookahead:4x3x2,jacobi"]
    result = bench(
        pair, "--prompts", prompts, *systems, "--concurrency", "1,4", "--max-tokens", "12", "--json"
    )
    assert result.exit_code == 0, result.output
    found = figures(result)
    assert {name for name, _, _ in found} == {"plain", "own", "index", "lookahead:4x3x2", "jacobi"}
    assert {concurrency for _, concurrency, _ in found} == {1, 4}
    for (name, _, _), line in found.items():
        assert (line["num_prompts"], line["num_tokens"], line["identical"]) == (8, 96, True)
        assert line["tokens_per_step"] == (1 if name == "plain" else 4)
        assert line["rows_per_token"] == (1 if name == "plain" else 7 / 4)
        assert (
            line["against_plain"]["lower"]
            <= line["against_plain"]["median"]
            <= line["against_plain"]["upper"]
        )
        assert line["speed_by_task"].keys() == {"chat", "code"}
    asked = [
        request.drafts.lookahead for request in pair.decoder.requests if "lookahead" in request.drafts.sources
    ]
    assert {(shape.window, shape.ngram, shape.candidates) for shape in asked} == {(4, 3, 2), (8, 2, 0)}


def test_systems_take_turns_in_being_first(pair: FakePair, prompts: str) -> None:
    bench(pair, "--prompts", prompts, "--systems", "plain,own", "--limit", "4", "--json")
    timed = pair.decoder.requests[2:]  # after a warm-up each
    assert [bool(request.drafts.sources) for request in timed] == [False, True, True, False] * 2


def test_each_index_is_its_systems_own_and_is_deleted_at_the_end(pair: FakePair, prompts: str) -> None:
    result = bench(pair, "--prompts", prompts, "--systems", "plain,index,all", "--limit", "2", "--json")
    assert result.exit_code == 0, result.output
    named = {request.drafts.namespace for request in pair.decoder.requests if request.drafts.learn} - {""}
    assert len(named) == 2
    assert set(pair.index.deleted) == named
    assert not pair.index.namespaces.keys() & named


def test_what_the_decoder_lacks_is_left_out_by_name(pair: FakePair, prompts: str) -> None:
    result = bench(pair, "--prompts", prompts, "--systems", "plain,model,all", "--limit", "1", "--json")
    assert result.exit_code == 0, result.output
    assert {name for name, _, _ in figures(result)} == {"plain", "all"}
    assert "left out: model, the decoder has no source model" in result.stderr


def test_all_drafts_with_a_draft_model_where_there_is_one(pair: FakePair, prompts: str) -> None:
    pair.decoder.sources = (*pair.decoder.sources, "model")
    result = bench(pair, "--prompts", prompts, "--systems", "model,all", "--limit", "1", "--json")
    assert result.exit_code == 0, result.output
    asked = {tuple(request.drafts.sources) for request in pair.decoder.requests}
    assert asked == {("model",), ("own", "index", "lookahead", "model")}


def test_what_is_taught_before_is_not_timed(pair: FakePair, prompts: str) -> None:
    arguments = ["--systems", "plain,all-taught", "--limit", "2", "--lessons", f"{prompts}=3", "--json"]
    result = bench(pair, "--prompts", prompts, *arguments)
    assert result.exit_code == 0, result.output
    assert figures(result)["all-taught", 1, 1]["num_prompts"] == 2
    taught = [request for request in pair.decoder.requests if request.drafts.namespace]
    assert len(taught) == 3 + 2


def test_a_second_pass_has_its_own_line(pair: FakePair, prompts: str) -> None:
    result = bench(
        pair, "--prompts", prompts, "--systems", "plain,own", "--limit", "2", "--passes", "2", "--json"
    )
    assert figures(result).keys() == {("plain", 1, 1), ("own", 1, 1), ("plain", 1, 2), ("own", 1, 2)}


def test_output_that_differs_is_counted_and_fails(pair: FakePair, prompts: str) -> None:
    pair.decoder.wrong_when_drafted = True
    result = bench(pair, "--prompts", prompts, "--systems", "plain,own", "--limit", "3", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)["systems"]
    assert [(line["system"], line["num_identical"]) for line in found] == [("plain", 3), ("own", 0)]
    assert "output differs from plain decoding: own" in result.stderr


def test_a_table_and_a_picture(pair: FakePair, prompts: str, tmp_path: Path) -> None:
    systems = "plain,own,lookahead:2x3x2,lookahead:4x3x2"
    picture = tmp_path / "figures.svg"
    result = bench(
        pair, "--prompts", prompts, "--limit", "2", "--systems", systems, "--picture", str(picture)
    )
    assert result.exit_code == 0, result.output
    for expected in ("system", "against plain", "identical?", "lookahead:4x3x2", "yes"):
        assert expected in result.stdout
    drawn = picture.read_text(encoding="utf-8")
    assert drawn.lstrip().startswith("<?xml")
    assert drawn.count('id="axes_') == 3  # speeds, lengths and the sweep of windows


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--systems", "plain,magic"], "'magic' is no system"),
        (["--systems", "lookahead:4x3"], "'lookahead:4x3' is no system"),
        (["--systems", " , "], "no system is named"),
        (["--concurrency", "0,4"], "'0,4' is not numbers above 0"),
        (["--systems", "plain", "--picture", "figures.bmp"], "figures.bmp is neither of .png, .svg"),
    ],
)
def test_bad_arguments_are_named(pair: FakePair, prompts: str, arguments: list[str], named: str) -> None:
    result = bench(pair, "--prompts", prompts, *arguments)
    assert result.exit_code != 0
    assert named in " ".join(result.stderr.replace("│", " ").split())
    assert not pair.decoder.requests


@pytest.mark.parametrize("content", ["{}", '{"id": 1, "task": "t", "turns": []}', "no json", "[1]"])
def test_a_file_that_holds_no_prompts_is_named_with_its_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": 1, "task": "t", "turns": ["x"]}\n' + content)
    with pytest.raises(BadPrompts, match=r"bad\.jsonl, line 2: "):
        load_prompts([str(path)])


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    torn = tmp_path / "torn.jsonl.gz"
    torn.write_bytes(gzip.compress(b"x" * 10_000)[:30])
    for path in (tmp_path / "none.jsonl", torn):
        with pytest.raises(BadPrompts, match=path.name):
            load_prompts([str(path)])


def test_fewer_prompts_are_taken_at_even_distances(prompts: str) -> None:
    assert [each.name for each in load_prompts([f"{prompts}=4"])] == ["p0", "p2", "p4", "p6"]
    assert [each.name for each in load_prompts([f"{prompts}=2", f"{prompts}=2"], 2)] == ["p0", "p0"]
    assert len(load_prompts([f"{prompts}=99"])) == 8


def test_a_window_is_a_system_by_its_shape() -> None:
    (system,) = systems_of("lookahead:15x5x7")
    assert system.drafts is not None
    assert system.drafts.lookahead == Lookahead(15, 5, 7)


def run(system: str, group: int, wall_s: float, tokens: int = 4) -> GroupRun:
    sample = Sample(PROMPT, tuple(range(tokens)), (wall_s / 2, wall_s), (1, tokens - 1), 9)
    return GroupRun(system, 1, 1, group, (sample,), wall_s)


def line_of(runs: list[GroupRun], system: str) -> Figures:
    (line,) = [each for each in figures_of(runs) if each.system == system]
    return line


def test_ratios_are_of_the_same_prompts_side_by_side() -> None:
    runs = [run("plain", 0, 1.0), run("own", 0, 0.5), run("plain", 1, 10.0), run("own", 1, 2.5)]
    ratio = line_of(runs, "own").against_plain
    assert ratio is not None
    assert (ratio.median, ratio.lower, ratio.upper) == (3.0, 2.5, 3.5)
    assert line_of(runs, "own").tokens_per_second == 8 / 3.0
    assert line_of(runs, "own").against_peer is None


def test_a_steps_gap_is_shared_by_its_tokens() -> None:
    line = line_of([run("plain", 0, 1.0, tokens=6)], "plain")
    assert line.token_ms_p50 == pytest.approx(100.0)
    assert line.first_token_ms_p50 == pytest.approx(500.0)
    assert line.accepted_len_histogram == (1, 0, 0, 0, 1)
    assert (line.tokens_per_step, line.rows_per_token) == (3.0, 1.5)
