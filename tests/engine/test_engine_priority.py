"""Waiting requests begin in the order of priority, then of arrival."""

from __future__ import annotations

from dataclasses import replace

from engine_cases import prompt

from decoder_service.model import LoadedModel
from decoder_service.request import Event, FinishedEvent
from tests.verify.decode import CONFIG, new_engine, request

ONE_AT_A_TIME = replace(CONFIG, max_streams=1)


def order_of_ends(model: LoadedModel, priorities: list[int]) -> list[int]:
    engine, ended = new_engine(model, config=ONE_AT_A_TIME), list[int]()
    for number, priority in enumerate(priorities):

        def sink(event: Event, number: int = number) -> None:
            if isinstance(event, FinishedEvent):
                ended.append(number)

        each = request(prompt(number), max_tokens=3, ignore_eos=True)
        engine.add(replace(each, priority=priority), sink)
    while not engine.is_idle:
        engine.step()
    return ended


def test_the_highest_priority_goes_first(llama: LoadedModel) -> None:
    assert order_of_ends(llama, [0, -5, 100, 7]) == [2, 3, 0, 1]


def test_equals_go_in_the_order_of_arrival(llama: LoadedModel) -> None:
    assert order_of_ends(llama, [1, 0, 1, 0, 1]) == [0, 2, 4, 1, 3]


def test_a_running_request_is_not_pushed_out(llama: LoadedModel) -> None:
    engine, seen = new_engine(llama, config=ONE_AT_A_TIME), list[Event]()
    engine.add(request(prompt(1), max_tokens=4, ignore_eos=True), seen.append)
    engine.step()
    urgent = request(prompt(2), max_tokens=4, ignore_eos=True)
    engine.add(replace(urgent, priority=100), lambda event: None)
    while not any(isinstance(event, FinishedEvent) for event in seen):
        engine.step()
    assert engine.num_waiting == 1
