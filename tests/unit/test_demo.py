from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_pair import FakePair, closed_port, fake_pair
from rich.console import Console
from typer.testing import CliRunner, Result

from decoder_service.client import Client, Drafts, Generation, Step
from decoder_service.commands.app import app
from decoder_service.commands.demo import passes
from decoder_service.commands.demo.passes import Measurement, Pass, Plan, has_learned
from decoder_service.commands.demo.prompts import demo_prompts
from decoder_service.commands.demo.report import Comparison
from decoder_service.commands.demo.views import LiveView, PlainView, demo_view
from decoder_service.commands.index_client import Learned, index_client


@pytest.fixture
def pair() -> Iterator[FakePair]:
    with fake_pair() as running:
        yield running


def demo(pair: FakePair, *arguments: str) -> Result:
    running = ["--decoder", pair.address, "--trie", pair.address]
    return CliRunner().invoke(app, ["demo", "--max-tokens", "24", *running, *arguments])


def plain_view() -> PlainView:
    return PlainView(Console(file=io.StringIO()))


def measure(pair: FakePair, plain_again_until_s: float) -> list[passes.Runs]:
    plan = Plan(demo_prompts()[:2], "fresh", 24, plain_again_until_s)
    with Client(pair.address) as client, index_client(pair.address) as index:
        return Measurement(client, index, plan, plain_view()).run()


def test_the_demo_has_ten_prompts_of_different_kinds_one_of_them_repeated() -> None:
    prompts = demo_prompts()
    assert len(prompts) == len({prompt.name for prompt in prompts}) == 10
    texts = {prompt.name: prompt.messages[-1].content for prompt in prompts}
    assert len(set(texts.values())) == 9
    assert texts["repeat"] == texts["chat"]
    assert sum(100 <= len(text.split()) <= 250 for text in texts.values()) >= 5


def test_identical_output_ends_with_status_zero_and_a_table(pair: FakePair) -> None:
    result = demo(pair, "--limit", "2")
    assert result.exit_code == 0, result.output
    for heading in ("prompt", "tokens", "steps", "tokens/s", "speed", "identical?"):
        assert heading in result.stdout
    assert "every output identical" in result.stdout
    assert "NO" not in result.stdout


def test_output_that_differs_ends_with_status_one_and_names_the_prompts(pair: FakePair) -> None:
    pair.decoder.wrong_when_drafted = True
    result = demo(pair, "--limit", "2")
    assert result.exit_code == 1
    assert "NO" in result.stdout
    assert "output differs from plain decoding: chat, code" in result.stderr


def test_the_json_file_has_the_agreed_keys(pair: FakePair, tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    assert demo(pair, "--limit", "2", "--json", str(path)).exit_code == 0
    figures = json.loads(path.read_text())
    assert figures["all_identical"] is True
    assert figures["median_speedup_cold"] > 0
    assert figures["median_speedup_warm"] > 0
    assert figures["draft_wait_ms_p50"] == 0.25
    assert [prompt["name"] for prompt in figures["prompts"]] == ["chat", "code"]
    prompt = figures["prompts"][0]
    assert prompt["tokens"] == 24
    assert {"tokens_per_second", "steps"} <= prompt["plain"].keys()
    drafted_keys = {"tokens_per_second", "steps", "tokens_per_step", "speedup", "identical"}
    assert drafted_keys <= prompt["cold"].keys()
    assert drafted_keys <= prompt["warm"].keys()
    assert prompt["plain"]["steps"] == 24
    assert (prompt["warm"]["steps"], prompt["warm"]["tokens_per_step"]) == (6, 4.0)


def test_the_json_file_is_written_when_output_differs_too(pair: FakePair, tmp_path: Path) -> None:
    pair.decoder.wrong_when_drafted = True
    path = tmp_path / "figures.json"
    assert demo(pair, "--limit", "1", "--json", str(path)).exit_code == 1
    assert json.loads(path.read_text())["all_identical"] is False


def test_cold_runs_teach_a_fresh_namespace_and_the_others_teach_nothing(pair: FakePair) -> None:
    measure(pair, plain_again_until_s=100)
    measured = [request for request in pair.decoder.requests if request.drafts.namespace in {"fresh", ""}]
    kinds = [
        (tuple(request.drafts.sources), request.drafts.namespace, request.drafts.learn)
        for request in measured
    ]
    plain, cold, warm = ((), "", False), (passes.SOURCES, "fresh", True), (passes.SOURCES, "fresh", False)
    assert kinds == [plain, cold, plain, cold, warm, plain, warm, plain]
    assert all(request.drafts.HasField("learn") for request in measured)


def test_the_warm_up_uses_a_namespace_of_its_own_and_all_are_deleted(pair: FakePair) -> None:
    measure(pair, plain_again_until_s=100)
    assert pair.index.deleted == ["fresh-warm-up", "fresh"]


def test_a_slow_machine_skips_the_second_plain_runs(pair: FakePair) -> None:
    runs = measure(pair, plain_again_until_s=0)
    assert [run.plain_again for run in runs] == [None, None]


def test_an_index_that_does_not_learn_is_warned_of(pair: FakePair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_LEARN_TIMEOUT_S", 0.1)
    monkeypatch.setattr(pair.index, "learn", lambda namespace, num_tokens: None)
    result = demo(pair, "--limit", "1")
    assert "warning: the index has not learned" in result.stdout
    assert result.exit_code == 0


def generation(pair: FakePair, drafts: Drafts) -> Generation:
    with Client(pair.address) as client:
        return client.generate("hello", drafts=drafts).result()


def test_the_index_has_learned_once_nothing_is_pending_and_all_is_counted(pair: FakePair) -> None:
    taught = [generation(pair, Drafts.none())] * 2
    assert has_learned(Learned(2, 32, 0), taught)
    assert has_learned(Learned(2, 30, 0), taught)
    assert not has_learned(Learned(2, 32, 1), taught)
    assert not has_learned(Learned(1, 32, 0), taught)
    assert not has_learned(Learned(2, 29, 0), taught)
    assert not has_learned(Learned(), taught)


def at_pace(generation: Generation, seconds_a_step: float) -> Generation:
    steps = tuple(
        dataclasses.replace(step, elapsed_s=number * seconds_a_step)
        for number, step in enumerate(generation.steps)
    )
    return dataclasses.replace(generation, steps=steps)


def test_speed_is_the_ratio_of_tokens_a_second_after_the_first_step(pair: FakePair) -> None:
    plain = at_pace(generation(pair, Drafts.none()), 0.1)
    drafted = at_pace(generation(pair, Drafts(("own",))), 0.2)
    assert plain.tokens_per_second == pytest.approx(15 / 1.5)
    assert drafted.tokens_per_second == pytest.approx(12 / 0.6)
    comparison = Comparison.of(drafted, plain, plain)
    assert comparison.speedup == pytest.approx(2.0)
    assert comparison.identical


def test_a_run_without_a_rate_has_no_speed(pair: FakePair) -> None:
    plain = generation(pair, Drafts.none())
    one_step = dataclasses.replace(plain, steps=plain.steps[:1])
    assert Comparison.of(one_step, plain, plain).speedup is None


def test_an_unreachable_decoder_ends_the_demo_with_its_address() -> None:
    address = closed_port()
    with fake_pair() as pair:
        pair.address = address
        result = CliRunner().invoke(app, ["demo", "--decoder", address, "--trie", address])
    assert result.exit_code == 1
    assert address in result.stderr


def test_one_address_alone_is_a_usage_error(pair: FakePair) -> None:
    assert CliRunner().invoke(app, ["demo", "--decoder", pair.address]).exit_code == 2


def test_a_terminal_gets_a_live_page_and_a_file_plain_lines(pair: FakePair) -> None:
    for terminal, kind in ((True, LiveView), (False, PlainView)):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=80)
        with demo_view(console, num_runs=4) as view:
            assert isinstance(view, kind)


def test_the_live_page_shows_progress_the_newest_text_and_the_speeds(pair: FakePair) -> None:
    console = Console(file=io.StringIO(), width=90)
    view = LiveView(console, num_runs=4)
    prompt = demo_prompts()[0]
    view.run_started(prompt, Pass.PLAIN)
    view.run_finished(prompt, Pass.PLAIN, at_pace(generation(pair, Drafts.none()), 0.1))
    view.run_started(prompt, Pass.COLD)
    for number in range(20):
        view.step(Step((number,), (), f"line {number}\n", 0, 0.0))
    with console.capture() as captured:
        console.print(view.render())
    page = captured.get()
    assert "1 of 4 runs" in page
    assert "chat (chat), cold" in page
    assert "line 19" in page
    assert "line 2\n" not in page
    assert "10.0" in page
