from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from decoder_service.draft import Source
from decoder_service.errors import InvalidRequestError
from decoder_service.request import (
    MAX_SEED,
    DraftChoice,
    GenerationRequest,
    ModelLimits,
    StopConditions,
    validated,
)
from decoder_service.sampling import SamplingParams

LIMITS = ModelLimits(vocab_size=100, context_len=50)
GOOD = GenerationRequest(
    "r",
    np.arange(5, dtype=np.int32),
    SamplingParams(),
    StopConditions(max_tokens=10),
    DraftChoice(frozenset({Source.OWN}), 8, "ns", learn=False),
)

Change = Callable[[GenerationRequest], GenerationRequest]


def with_sampling(**values: Any) -> Change:
    return lambda request: replace(request, sampling=replace(request.sampling, **values))


def with_stop(**values: Any) -> Change:
    return lambda request: replace(request, stop=replace(request.stop, **values))


def with_fields(**values: Any) -> Change:
    return lambda request: replace(request, **values)


NAN, INF = float("nan"), float("inf")
BAD: list[tuple[str, Change]] = [
    ("the prompt is empty", with_fields(prompt=np.empty(0, np.int32))),
    ("the prompt has 50 tokens", with_fields(prompt=np.zeros(50, np.int32))),
    ("token_ids: token 100", with_fields(prompt=np.array([1, 100], np.int32))),
    ("token_ids: token -1", with_fields(prompt=np.array([1, -1], np.int32))),
    ("resume.token_ids: token 100", with_fields(resumed=(1, 100))),
    ("resume.token_ids has 11 tokens", with_fields(resumed=(1,) * 11)),
    ("drafts.max_nodes -1", with_fields(drafts=replace(GOOD.drafts, max_nodes=-1))),
    *[
        (f"sampling.temperature {value:g}", with_sampling(temperature=value))
        for value in (-0.1, NAN, INF, 101)
    ],
    *[(f"sampling.top_k {value}", with_sampling(top_k=value)) for value in (-1, 101)],
    *[(f"sampling.top_p {value:g}", with_sampling(top_p=value)) for value in (0.0, -1.0, 1.5, NAN)],
    *[(f"sampling.min_p {value:g}", with_sampling(min_p=value)) for value in (-0.1, 1.1, NAN)],
    *[
        (f"sampling.repetition_penalty {value:g}", with_sampling(repetition_penalty=value))
        for value in (0.0, -1.0, NAN, INF, 1000.0, 1e-40, 0.0099)
    ],
    *[("sampling.seed", with_sampling(seed=value)) for value in (-1, MAX_SEED + 1)],
    *[("sampling.logit_bias of token 3", with_sampling(logit_bias={3: value})) for value in (NAN, INF, 1e9)],
    ("sampling.logit_bias: token 100", with_sampling(logit_bias={100: 1.0})),
    ("stop.max_tokens 0", with_stop(max_tokens=0)),
    ("stop.min_tokens 11", with_stop(min_tokens=11)),
    ("stop.strings has 17 entries", with_stop(strings=("a",) * 17)),
    ("stop.strings has an empty entry", with_stop(strings=("a", ""))),
    ("stop.token_ids: token 100", with_stop(token_ids=frozenset({100}))),
]
LIMIT_VALUES: list[Change] = [
    with_sampling(
        temperature=100.0, top_k=100, top_p=1.0, min_p=1.0, repetition_penalty=100.0, seed=MAX_SEED
    ),
    with_sampling(repetition_penalty=0.01),
    with_sampling(logit_bias={0: -100.0, 99: 100.0}),
    with_stop(min_tokens=10, strings=("a",) * 16, token_ids=frozenset({0, 99})),
    with_fields(prompt=np.full(49, 99, np.int32), resumed=(0,) * 10),
]


@pytest.mark.parametrize(("message", "change"), BAD, ids=[message for message, _ in BAD])
def test_a_bad_field_is_named_with_its_value(message: str, change: Change) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        validated(change(GOOD), LIMITS)
    assert message in str(caught.value)


@pytest.mark.parametrize("change", LIMIT_VALUES)
def test_values_at_their_limits_are_taken(change: Change) -> None:
    request = change(GOOD)
    assert validated(request, LIMITS) is request
