"""Lookahead and Jacobi decoding: windows and pools change no token and no bit, and save steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from engine_cases import DTYPES, GREEDY, assert_all_equal, assert_equal, prompt, ragged_requests
from tiny_model import CONFIGS, CONTEXT_LEN, VOCAB, loaded, tiny_model

from decoder_service.draft import LookaheadShape, Source
from decoder_service.drafts.lookahead import LookaheadSource
from decoder_service.engine_config import EngineConfig
from decoder_service.model import LoadedModel
from decoder_service.request import DraftChoice, GenerationRequest
from decoder_service.sampling import SamplingParams
from tests.verify.decode import decode, decode_alone, request
from tests.verify.proposals import GarbageSource

LOOKAHEAD, JACOBI, DEEP = LookaheadShape(5, 3, 5), LookaheadShape(6, 2, 0), LookaheadShape(3, 5, 2)
SHAPES = {"lookahead": LOOKAHEAD, "jacobi": JACOBI, "deep": DEEP}
ALONE = frozenset({Source.LOOKAHEAD})


def by_lookahead(
    each: GenerationRequest, shape: LookaheadShape = LOOKAHEAD, sources: frozenset[Source] = ALONE
) -> GenerationRequest:
    return replace(each, drafts=DraftChoice(sources, 24, "", learn=False, lookahead=shape))


@pytest.fixture(params=list(SHAPES))
def shape(request: pytest.FixtureRequest) -> LookaheadShape:
    return SHAPES[request.param]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", CONFIGS)
def test_it_equals_plain_decoding(
    kind: str, dtype: torch.dtype, sampling: SamplingParams, shape: LookaheadShape
) -> None:
    model = loaded(tiny_model(kind, dtype))
    each = request(prompt(1), max_tokens=60, sampling=sampling, ignore_eos=True)
    (plain,) = decode(model, [each])
    (fast,) = decode(model, [by_lookahead(each, shape)], [LookaheadSource()])
    assert_equal(fast, plain)
    assert fast.finished.stats.drafted_by.keys() == {Source.LOOKAHEAD}
    assert max(step.num_drafted for step in fast.steps) >= shape.num_rows


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_ragged_batch_equals_its_requests_alone(dtype: torch.dtype, shape: LookaheadShape) -> None:
    model = loaded(tiny_model("llama", dtype))
    requests = ragged_requests()
    alone = decode_alone(model, requests)
    everything = frozenset({Source.LOOKAHEAD, Source.OWN, Source.INDEX})
    together = decode(model, [by_lookahead(each, shape) for each in requests], [LookaheadSource()])
    combined = decode(
        model,
        [by_lookahead(each, shape, everything) for each in requests],
        [LookaheadSource(), GarbageSource(VOCAB)],
    )
    half = [by_lookahead(each, shape) if seed % 2 else each for seed, each in enumerate(requests)]
    for results in (together, combined, decode(model, half, [LookaheadSource()])):
        assert_all_equal(results, alone)


@pytest.mark.parametrize("room", [1, 2, 3, 12])
def test_the_window_ends_where_the_context_ends(room: int, shape: LookaheadShape) -> None:
    model = loaded(tiny_model("gpt2", torch.bfloat16))  # its positions are learned: there are no others
    each = request(prompt(2, CONTEXT_LEN - room), max_tokens=room, ignore_eos=True)
    (plain,) = decode(model, [each])
    (fast,) = decode(model, [by_lookahead(each, shape)], [LookaheadSource()])
    assert_equal(fast, plain)


def test_a_window_that_does_not_fit_into_the_step_waits(llama: LoadedModel) -> None:
    config = EngineConfig(max_streams=4, prefill_rows=96, draft_nodes=LOOKAHEAD.num_rows, min_probability=0.0)
    requests = [request(prompt(seed), max_tokens=30, ignore_eos=True) for seed in range(3)]
    alone = decode_alone(llama, requests)
    together = decode(llama, [by_lookahead(each) for each in requests], [LookaheadSource()], config)
    assert_all_equal(together, alone)


def test_it_saves_steps_where_text_repeats(llama: LoadedModel) -> None:
    each = request(prompt(3), max_tokens=200, sampling=GREEDY, ignore_eos=True)
    (plain,) = decode(llama, [each])
    (fast,) = decode(llama, [by_lookahead(each)], [LookaheadSource()])
    assert_equal(fast, plain)
    assert len(fast.steps) < 0.8 * len(plain.steps)
    stats = fast.finished.stats
    assert stats.accepted_by[Source.LOOKAHEAD] == stats.num_accepted == 200 - len(fast.steps)


def test_the_same_request_gets_the_same_steps_again(llama: LoadedModel, sampling: SamplingParams) -> None:
    each = by_lookahead(request(prompt(4), max_tokens=60, sampling=sampling, ignore_eos=True))
    first, second = (decode(llama, [each], [LookaheadSource()])[0] for _ in range(2))
    assert [step.tokens for step in first.steps] == [step.tokens for step in second.steps]
