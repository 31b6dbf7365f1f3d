"""Prompts beside streams that decode: who comes first, and whom drafts are planned for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from engine_cases import LENGTH, FixedCost, base, drafted, prompt
from engine_sources import RememberingSource

from decoder_service.calibration import Calibration
from decoder_service.draft import Source
from decoder_service.engine import Engine
from decoder_service.model import LoadedModel
from decoder_service.planner import Planner
from decoder_service.request import StepEvent
from tests.verify.decode import CONFIG, new_engine, request
from tests.verify.proposals import GarbageSource, RecordedSource

CONFIG_32 = replace(CONFIG, prefill_rows=32, max_streams=8)


def test_prompts_are_taken_in_order_of_arrival(llama: LoadedModel) -> None:
    """While short prompts keep arriving, an earlier long one gets all rows of prompts until it is done."""
    engine, ended = new_engine(llama, config=CONFIG_32), list[int]()
    long = engine.add(request(prompt(1, 150), max_tokens=1, ignore_eos=True), lambda event: ended.append(0))
    for step in range(1, 6):
        engine.add(
            request(prompt(step, 8), max_tokens=1, ignore_eos=True),
            lambda event, step=step: ended.append(step) if isinstance(event, StepEvent) else None,
        )
        assert long.slot.length == 32 * (step - 1)
        assert ended == []
        engine.step()
    assert ended[0] == 0
    while not engine.is_idle:
        engine.step()
    assert [each for each in ended if each] == [1, 2, 3, 4, 5]


def test_a_stream_that_decodes_waits_for_no_prompt(llama: LoadedModel) -> None:
    engine, tokens = new_engine(llama, config=CONFIG_32), list[int]()
    engine.add(request(prompt(1, 4), max_tokens=30, ignore_eos=True), lambda event: tokens.append(1))
    engine.step()
    for seed in range(4):
        engine.add(request(prompt(seed, 150), max_tokens=1, ignore_eos=True), lambda event: None)
    for step in range(2, 12):
        engine.step()
        assert len(tokens) == step


def test_a_prompt_takes_fewer_rows_beside_a_stream_that_decodes(llama: LoadedModel) -> None:
    config = replace(
        CONFIG, prefill_rows=96, cost=FixedCost.linear(0.1)
    )  # 16 rows take 2.5 times as long as one
    engine, ended = new_engine(llama, config=config), list[int]()
    talking = engine.add(request(prompt(1, 4), max_tokens=8, ignore_eos=True), lambda event: ended.append(1))
    engine.step()
    long = engine.add(request(prompt(2, 190), max_tokens=1, ignore_eos=True), lambda event: None)
    for step in range(1, 4):
        engine.step()
        assert long.slot.length == 15 * step
    engine.drop([talking])
    engine.step()
    assert long.slot.length == 45 + 96


def test_a_prompt_is_drafted_for_once_its_last_piece_is_next(llama: LoadedModel) -> None:
    source = RememberingSource(Source.INDEX)
    engine = Engine(llama, [source], Planner(Calibration()), CONFIG_32)
    stream = engine.add(drafted(request(prompt(1, 100), max_tokens=3, ignore_eos=True)), lambda event: None)
    engine.step()
    engine.step()
    assert source.asked_for == set()
    engine.step()
    assert (stream.slot.length, source.asked_for) == (96, {stream.number})
    while not engine.is_idle:
        engine.step()
    assert len(stream.stats.waits_ms) == stream.stats.num_steps


def test_a_prompt_that_fits_into_one_step_is_drafted_for_at_once(llama: LoadedModel) -> None:
    long = base(llama, request(prompt(1)).sampling)
    engine, steps = new_engine(llama, [RecordedSource([long.text], 64)]), list[StepEvent]()
    engine.add(
        drafted(request(prompt(1), max_tokens=LENGTH, ignore_eos=True)),
        lambda event: steps.append(event) if isinstance(event, StepEvent) else None,
    )
    engine.step()
    assert steps[0].num_drafted > 0


def test_a_prompt_that_goes_on_is_not_planned_for_and_costs_no_budget(
    llama: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[tuple[int, int]] = []  # requests, budget
    planner = Planner(Calibration())
    plan = planner.plan

    def counted(drafts: Sequence[Any], budget: int, *args: Any, **options: Any) -> Any:
        planned.append((len(drafts), budget))
        return plan(drafts, budget, *args, **options)

    monkeypatch.setattr(planner, "plan", counted)
    engine = Engine(llama, [GarbageSource(64)], planner, CONFIG_32)
    engine.add(drafted(request(prompt(1, 8), max_tokens=60, ignore_eos=True)), lambda event: None)
    engine.step()
    engine.step()
    for seed in range(2, 5):
        engine.add(drafted(request(prompt(seed, 150), max_tokens=9, ignore_eos=True)), lambda event: None)
    for _ in range(4):
        engine.step()
    assert planned == [(1, CONFIG.draft_nodes)] * 6
    engine.step()  # the first prompt's last piece
    assert planned[-1] == (2, CONFIG.draft_nodes - 1)


def test_an_abandoned_prompt_makes_room_for_the_last_piece_of_the_next(llama: LoadedModel) -> None:
    """The next one was not asked for when the step before ended; its draft is planned all the same."""
    source = RememberingSource(Source.INDEX)
    engine = Engine(llama, [source], Planner(Calibration()), CONFIG_32)
    first, second = (
        engine.add(drafted(request(prompt(seed, length), max_tokens=3, ignore_eos=True)), lambda event: None)
        for seed, length in ((1, 150), (2, 20))
    )
    engine.step()
    first.is_cancelled = True
    assert source.asked_for == set()
    engine.step()
    assert source.asked_for == {second.number}
    assert second.num_output == 1
