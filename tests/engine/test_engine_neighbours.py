"""What happens to one request harms no other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from engine_cases import SAMPLED, assert_all_equal, drafted, knowing, prompt
from tiny_model import VOCAB, loaded, tiny_model, tiny_network

from decoder_service.engine import Engine
from decoder_service.errors import InternalError
from decoder_service.model import LoadedModel, Model, ModelOptions
from decoder_service.request import Event, FailedEvent
from decoder_service.sampling import SamplingParams
from tests.verify.decode import (
    Recorder,
    decode,
    decode_alone,
    new_engine,
    request,
)


@pytest.mark.parametrize("at_step", [1, 2, 5])
def test_a_cancelled_request_is_gone_at_the_next_step_and_harms_nobody(
    llama: LoadedModel, sampling: SamplingParams, at_step: int
) -> None:
    others = [request(prompt(seed), max_tokens=30, sampling=sampling) for seed in (6, 7)]
    alone = decode_alone(llama, others)
    engine, events = new_engine(llama, knowing(*alone)), list[Event]()
    outputs: list[list[Event]] = [[], []]
    doomed = engine.add(drafted(request(prompt(8, 150), max_tokens=300, ignore_eos=True)), events.append)
    for each, output in zip(others, outputs, strict=True):
        engine.add(drafted(each), output.append)
    for _ in range(at_step):
        engine.step()
    num_events, num_free = len(events), llama.model.cache.num_free_blocks
    doomed.is_cancelled = True
    engine.step()
    assert doomed not in engine.streams()
    assert llama.model.cache.num_free_blocks > num_free
    while not engine.is_idle:
        engine.step()
    assert len(events) == num_events
    for output, expected in zip(outputs, alone, strict=True):
        assert [token for event in output for token in getattr(event, "tokens", [])] == expected.output


def test_a_request_waits_until_the_cache_has_room() -> None:
    options = ModelOptions(torch.float32, torch.device("cpu"), 256, num_cache_positions=256, max_rows=160)
    model = loaded(Model(tiny_network("llama", torch.float32), options))
    requests = [request(prompt(seed, 60), max_tokens=60, ignore_eos=True) for seed in range(4)]
    alone = decode_alone(model, requests)
    most_waiting = 0

    def watch(engine: Engine) -> None:
        nonlocal most_waiting
        most_waiting = max(most_waiting, engine.num_waiting)

    together = decode(model, requests, watch=watch)
    assert most_waiting >= 2
    assert_all_equal(together, alone)


def test_a_request_whose_numbers_are_not_finite_harms_nobody() -> None:
    """Its prompt holds a token whose embedding is NaN; its neighbours keep every bit."""
    model = loaded(tiny_model("llama", torch.bfloat16))
    others = [request(prompt(seed), max_tokens=20, sampling=SAMPLED, ignore_eos=True) for seed in (3, 4)]
    alone = decode_alone(model, others)
    poison = min(set(range(2, VOCAB)) - {token for each in alone for token in each.text.tolist()})
    model.model.network.get_input_embeddings().weight.data[poison] = float("nan")
    broken = request(np.array([5, poison, 9], np.int32), max_tokens=20, ignore_eos=True)
    results = decode(model, [broken, *map(drafted, others)], knowing(*alone))
    assert len(results[0].output) == 20
    assert_all_equal(results[1:], alone)


@pytest.mark.parametrize("num_before", [0, 1, 7])
def test_a_request_whose_sampling_raises_ends_alone(
    llama: LoadedModel, sampling: SamplingParams, num_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [request(prompt(seed, 130), max_tokens=30, sampling=sampling) for seed in (6, 7)]
    alone = decode_alone(llama, requests)
    engine, failing = new_engine(llama, knowing(*alone)), list[Event]()
    num_free = llama.model.cache.num_free_blocks
    doomed = engine.add(
        drafted(request(prompt(8), max_tokens=300, sampling=SAMPLED, ignore_eos=True)), failing.append
    )
    choose, choices = doomed.sampler.choose, list[int]()

    def raising(logits: torch.Tensor, history: Sequence[int]) -> int:
        if len(choices) == num_before:
            raise ValueError("a processor is broken")
        choices.append(choose(logits, history))
        return choices[-1]

    monkeypatch.setattr(doomed.sampler, "choose", raising)
    recorders = [Recorder(llama.model) for _ in requests]
    for each, recorder in zip(requests, recorders, strict=True):
        recorder.stream = engine.add(drafted(each), recorder.take)
    engine.on_logits = lambda stream, position, logits: next(
        (each.logits.update({position: logits.clone()}) for each in recorders if each.stream is stream), None
    )
    while not engine.is_idle:
        engine.step()
    assert_all_equal([each.decoded for each in recorders if each.decoded], alone)
    assert isinstance(failing[-1], FailedEvent)
    assert isinstance(failing[-1].error, InternalError)
    assert str(failing[-1].error) == "the request failed: ValueError: a processor is broken"
    assert sum(isinstance(event, FailedEvent) for event in failing) == 1
    assert llama.model.cache.num_free_blocks == num_free


def test_a_request_whose_text_cannot_be_decoded_ends_alone(llama: LoadedModel) -> None:
    requests = [drafted(request(prompt(seed), max_tokens=20, ignore_eos=True)) for seed in (6, 7)]
    alone = decode_alone(llama, requests)
    engine, failing, tokens = new_engine(llama), list[Event](), list[int]()
    doomed = engine.add(requests[0], failing.append)
    engine.add(requests[1], lambda event: tokens.extend(getattr(event, "tokens", [])))
    engine.step()

    def broken(token: int) -> str:
        raise UnicodeError(f"token {token} is no text")

    doomed._text.push = broken  # type: ignore[method-assign]
    while not engine.is_idle:
        engine.step()
    assert isinstance(failing[-1], FailedEvent)
    assert str(failing[-1].error).startswith("the request failed: UnicodeError: token ")
    assert tokens == alone[1].output
