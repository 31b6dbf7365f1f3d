"""The device thread, over an engine that steps when it is told to."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
from fake_engine import (
    FOREVER,
    TIMEOUT_S,
    Events,
    FakeEngine,
    failure_of,
    request,
    running,
    submit_when_there_is_room,
)
from structlog.testing import capture_logs

from decoder_service.engine import Engine
from decoder_service.errors import InternalError, OverloadedError, StoppingError
from decoder_service.kv_cache import CacheUse
from decoder_service.request import (
    FinishedEvent,
    FinishReason,
    GenerationRequest,
    StepEvent,
)
from decoder_service.scheduler import Load, Scheduler


def test_a_request_gets_its_steps_and_then_its_end() -> None:
    engine, events = FakeEngine(), Events()
    engine.run_freely()
    with running(engine) as scheduler:
        scheduler.submit(request(3), events)
        assert isinstance(events.last(), FinishedEvent)
    assert [type(event) for event in events.seen] == [StepEvent] * 3 + [FinishedEvent]


def test_a_request_joins_while_another_one_runs() -> None:
    engine, first, second = FakeEngine(), Events(), Events()
    with running(engine) as scheduler:
        scheduler.submit(request(FOREVER), first)
        engine.wait_for_step()
        engine.allow(2)
        scheduler.submit(request(FOREVER), second)  # the third step of the first is about to run
        engine.allow(2)
        assert (first.num_steps, second.num_steps) == (4, 1)


def test_a_cancelled_request_ends_at_the_next_step_and_the_other_goes_on() -> None:
    engine, cancelled, other = FakeEngine(), Events(), Events()
    with running(engine) as scheduler:
        ticket = scheduler.submit(request(FOREVER), cancelled)
        engine.wait_for_step()
        scheduler.submit(request(FOREVER), other)
        engine.allow(2)
        scheduler.cancel(ticket)
        engine.allow(3)
        assert (cancelled.num_steps, other.num_steps) == (2, 4)
        assert len(engine.running) == 1


def test_a_request_that_was_cancelled_in_the_queue_never_runs() -> None:
    engine, cancelled, other = FakeEngine(), Events(), Events()
    scheduler = Scheduler(cast("Engine", engine), max_queue=2)
    scheduler.cancel(scheduler.submit(request(FOREVER), cancelled))
    scheduler.submit(request(2), other)
    engine.run_freely()
    scheduler.start()
    assert isinstance(other.last(), FinishedEvent)
    scheduler.stop(TIMEOUT_S)
    assert cancelled.seen == []


def test_a_cancellation_is_not_lost_while_the_request_is_being_added() -> None:
    engine, cancelled, other = FakeEngine(), Events(), Events()
    scheduler = Scheduler(cast("Engine", engine), max_queue=2)
    ticket = scheduler.submit(request(FOREVER, "cancelled"), cancelled)
    engine.on_add = lambda wanted: scheduler.cancel(ticket) if wanted.request_id == "cancelled" else None
    scheduler.submit(request(2), other)
    engine.run_freely()
    scheduler.start()
    assert isinstance(other.last(), FinishedEvent)
    scheduler.stop(TIMEOUT_S)
    assert cancelled.seen == []


def test_abort_ends_running_and_waiting_requests_of_that_name_and_no_others() -> None:
    engine, events = FakeEngine(), [Events() for _ in range(3)]
    with running(engine) as scheduler:
        scheduler.submit(request(FOREVER, "bad"), events[0])
        engine.wait_for_step()
        scheduler.submit(request(FOREVER, "bad"), events[1])  # not yet taken by the device thread
        other = scheduler.submit(request(FOREVER, "good"), events[2])
        assert scheduler.abort("bad") == 2
        assert scheduler.abort("bad") == 0, "they are ended already"
        engine.allow(2)
        ends = [each.last() for each in events[:2]]
        assert [end.reason for end in ends if isinstance(end, FinishedEvent)] == [FinishReason.ABORTED] * 2
        assert (events[0].num_steps, events[1].num_steps, events[2].num_steps) == (0, 0, 1)
        assert scheduler.abort("unknown") == 0
        scheduler.cancel(other)
        assert scheduler.abort("good") == 0, "its client has left"


def test_the_load_counts_requests_that_run_and_that_wait() -> None:
    engine = FakeEngine()
    with running(engine) as scheduler:
        assert scheduler.load() == Load(0, 0, CacheUse(64, 16))
        scheduler.submit(request(FOREVER), Events())
        engine.wait_for_step()
        scheduler.submit(request(FOREVER), Events())
        assert scheduler.load() == Load(1, 1, CacheUse(64, 16))
        engine.allow(1)
        assert scheduler.load() == Load(2, 0, CacheUse(64, 16))


def test_a_full_queue_refuses_and_takes_again_once_a_request_has_ended() -> None:
    engine, events = FakeEngine(), [Events() for _ in range(3)]
    with running(engine, max_queue=2) as scheduler:
        scheduler.submit(request(1), events[0])
        scheduler.submit(request(FOREVER), events[1])
        with pytest.raises(OverloadedError, match="2 requests are open, the most that are taken"):
            scheduler.submit(request(1), events[2])
        engine.run_freely()
        assert isinstance(events[0].last(), FinishedEvent)
        submit_when_there_is_room(scheduler, request(1), events[2])
        assert isinstance(events[2].last(), FinishedEvent)


def test_cancelled_requests_make_room_in_the_queue() -> None:
    engine, events = FakeEngine(), Events()
    engine.run_freely()
    with running(engine, max_queue=1) as scheduler:
        for _ in range(5):
            scheduler.cancel(submit_when_there_is_room(scheduler, request(FOREVER), Events()))
        submit_when_there_is_room(scheduler, request(1), events)
        assert isinstance(events.last(), FinishedEvent)


def test_a_request_that_cannot_be_added_fails_alone() -> None:
    def refuse(wanted: GenerationRequest) -> None:
        if wanted.request_id == "bad":
            raise ValueError("no such thing")

    engine, bad, good = FakeEngine(on_add=refuse), Events(), Events()
    engine.run_freely()
    with running(engine, max_queue=2) as scheduler:
        scheduler.submit(request(1, "bad"), bad)
        assert str(failure_of(bad)) == "ValueError: no such thing"
        submit_when_there_is_room(scheduler, request(2), good)
        assert isinstance(good.last(), FinishedEvent)


def test_a_step_that_fails_ends_its_requests_and_the_next_ones_run() -> None:
    engine, events = FakeEngine(failure=RuntimeError("the device is on fire")), [Events() for _ in range(3)]
    with running(engine) as scheduler:
        scheduler.submit(request(5), events[0])
        engine.wait_for_step()
        engine.permits.release()
        error = failure_of(events[0])
        assert isinstance(error, InternalError)
        assert str(error) == "a step failed: RuntimeError: the device is on fire"
        engine.run_freely()
        scheduler.submit(request(2), events[2])
        assert isinstance(events[2].last(), FinishedEvent)


def test_each_end_of_a_request_is_one_line_of_the_log() -> None:
    def refuse(wanted: GenerationRequest) -> None:
        if wanted.request_id == "refused":
            raise ValueError("no such thing")

    engine, events = FakeEngine(on_add=refuse), [Events() for _ in range(4)]
    scheduler = Scheduler(cast("Engine", engine), max_queue=8)
    with capture_logs() as lines:
        scheduler.submit(request(3, "done"), events[0])
        scheduler.submit(request(1, "refused"), events[1])
        left = scheduler.submit(request(FOREVER, "left"), events[2])
        scheduler.submit(request(FOREVER, "broken"), events[3])
        scheduler.start()
        engine.wait_for_step()
        engine.allow(4)
        scheduler.cancel(left)
        engine.allow(1)
        engine.failure = RuntimeError("the device is on fire")
        engine.permits.release()
        failure_of(events[3])
        scheduler.stop(TIMEOUT_S)
    assert [line for line in lines if line["event"] == "a request ended"] == [
        {"event": "a request ended", "log_level": "info", **ended}
        for ended in (
            {"request_id": "refused", "reason": "InternalError", "tokens": 0, "steps": 0},
            {"request_id": "done", "reason": "length", "tokens": 3, "steps": 3},
            {"request_id": "left", "reason": "cancelled", "tokens": 4, "steps": 4},
            {"request_id": "broken", "reason": "InternalError", "tokens": 5, "steps": 5},
        )
    ]


def test_stopping_lets_open_requests_finish_and_refuses_new_ones() -> None:
    engine, events = FakeEngine(), Events()
    with running(engine) as scheduler:
        scheduler.submit(request(4), events)
        engine.wait_for_step()
        stopping = threading.Thread(target=scheduler.stop, args=(TIMEOUT_S,))
        stopping.start()
        wait_until_refused(scheduler)
        engine.run_freely()
        stopping.join(TIMEOUT_S)
        assert not stopping.is_alive()
    assert [type(event) for event in events.seen] == [StepEvent] * 4 + [FinishedEvent]


def wait_until_refused(scheduler: Scheduler) -> None:
    never = threading.Event()
    for _ in range(int(TIMEOUT_S / 0.01)):
        try:
            scheduler.cancel(scheduler.submit(request(1), Events()))
        except StoppingError:
            return
        except OverloadedError:
            never.wait(0.01)
    pytest.fail("the scheduler goes on taking requests")


def test_requests_that_do_not_end_in_time_are_told_that_the_service_stops() -> None:
    engine, events = FakeEngine(), [Events(), Events()]
    with running(engine) as scheduler:
        for each in events:
            scheduler.submit(request(FOREVER), each)
        engine.wait_for_step()
        engine.run_freely()
        scheduler.stop(0.0)
    errors = [failure_of(each) for each in events]
    assert all(isinstance(error, StoppingError) for error in errors)
    assert "resume at another replica" in str(errors[0])


def test_stopping_an_idle_scheduler_ends_at_once() -> None:
    scheduler = Scheduler(cast("Engine", FakeEngine()), max_queue=1)
    scheduler.start()
    scheduler.stop(TIMEOUT_S)
    with pytest.raises(StoppingError, match="the decoder is stopping"):
        scheduler.submit(request(1), Events())


def test_requests_of_many_threads_all_end() -> None:
    engine = FakeEngine()
    engine.run_freely()
    with running(engine, max_queue=200) as scheduler, ThreadPoolExecutor(8) as pool:

        def generate(number: int) -> int:
            events = Events()
            scheduler.submit(request(1 + number % 7), events)
            assert isinstance(events.last(), FinishedEvent)
            return events.num_steps

        assert list(pool.map(generate, range(200))) == [1 + number % 7 for number in range(200)]
