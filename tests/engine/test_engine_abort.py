"""An aborted request ends with what it has, and leaves nothing behind."""

from __future__ import annotations

from engine_cases import LENGTH, base, prompt

from decoder_service.model import LoadedModel
from decoder_service.request import Event, FinishedEvent, FinishReason, GenerationRequest, StepEvent
from decoder_service.sampling import SamplingParams
from tests.verify.decode import CONFIG, new_engine, request


def endless(seed: int) -> GenerationRequest:
    return request(prompt(seed), max_tokens=LENGTH, ignore_eos=True)


def test_abort_ends_running_and_waiting_requests_and_frees_their_place_within_one_step(
    llama: LoadedModel,
) -> None:
    engine = new_engine(llama)
    seen: list[list[Event]] = [[] for _ in range(CONFIG.max_streams + 2)]
    num_free = llama.model.cache.num_free_blocks
    streams = [engine.add(endless(1), events.append) for events in seen]
    for _ in range(5):
        engine.step()
    running, waiting, next_in_line = streams[0], streams[-1], streams[-2]
    assert (engine.num_running, engine.num_waiting) == (CONFIG.max_streams, 2)
    assert engine.cache_use.num_used > 0
    for stream in (running, waiting):
        stream.is_aborted = True
    engine.step()
    ended = [events[-1] for events in (seen[0], seen[-1])]
    assert [event.reason for event in ended if isinstance(event, FinishedEvent)] == [FinishReason.ABORTED] * 2
    assert (engine.num_running, engine.num_waiting) == (CONFIG.max_streams, 0)
    assert next_in_line.slot.blocks, "the free place is taken in the same step"
    for stream in engine.streams():
        stream.is_aborted = True
    engine.step()
    assert engine.is_idle
    assert engine.cache_use.num_used == 0
    assert llama.model.cache.num_free_blocks == num_free


def test_the_end_of_an_aborted_request_has_its_usage_and_figures(
    llama: LoadedModel, sampling: SamplingParams
) -> None:
    whole = base(llama, sampling)
    engine, seen = new_engine(llama), list[Event]()
    stream = engine.add(
        request(prompt(1), max_tokens=LENGTH, sampling=sampling, ignore_eos=True), seen.append
    )
    for _ in range(4):
        engine.step()
    stream.is_aborted = True
    engine.step()
    *steps, end = seen
    tokens = [token for step in steps if isinstance(step, StepEvent) for token in step.tokens]
    assert isinstance(end, FinishedEvent)
    assert (end.num_output, end.stats.num_steps) == (4, 4)
    assert tokens == whole.output[:4]
    assert end.timings.arrived <= end.timings.started <= end.timings.first_token <= end.timings.finished


def test_a_request_that_is_aborted_before_it_ran_has_no_negative_times(llama: LoadedModel) -> None:
    engine, seen = new_engine(llama), list[Event]()
    engine.add(endless(1), seen.append).is_aborted = True
    engine.step()
    (end,) = seen
    assert isinstance(end, FinishedEvent)
    assert (end.reason, end.num_output) == (FinishReason.ABORTED, 0)
    assert end.timings.arrived <= end.timings.started <= end.timings.first_token <= end.timings.finished


def test_what_was_aborted_is_not_learned(llama: LoadedModel) -> None:
    learned: list[int] = []
    engine = new_engine(llama)
    engine._learn = lambda stream: learned.append(stream.number)
    engine.add(endless(1), lambda event: None).is_aborted = True
    engine.step()
    assert learned == []
