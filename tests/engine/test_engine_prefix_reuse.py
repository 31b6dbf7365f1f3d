"""Requests whose texts begin alike share keys and values, and no bit tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from engine_cases import DTYPES, assert_all_equal, assert_equal, drafted, prompt
from tiny_model import VOCAB, loaded, tiny_model

from decoder_service.attention_kernel import BLOCK
from decoder_service.engine import Engine
from decoder_service.model import LoadedModel
from decoder_service.request import GenerationRequest
from decoder_service.sampling import SamplingParams
from tests.verify.decode import CONFIG, Decoded, decode, decode_alone, request
from tests.verify.proposals import GarbageSource

REUSING = replace(CONFIG, reuse_prefixes=True)


def questions(sampling: SamplingParams) -> list[GenerationRequest]:
    """Six questions on one text of a little over two blocks."""
    shared = prompt(1, 2 * BLOCK + 7)
    return [
        request(
            np.append(shared, prompt(seed, 9)),
            max_tokens=30,
            sampling=replace(sampling, seed=seed),
            ignore_eos=True,
        )
        for seed in range(6)
    ]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_request_after_another_equals_itself_alone(dtype: torch.dtype, sampling: SamplingParams) -> None:
    model = loaded(tiny_model("llama", dtype))
    alone = decode_alone(model, questions(sampling))
    together = decode(model, questions(sampling), config=REUSING)
    again = decode(
        model, [drafted(each) for each in questions(sampling)], [GarbageSource(VOCAB)], config=REUSING
    )
    assert_all_equal(together, alone)
    assert_all_equal(again, alone)
    assert [each.finished.num_reused for each in again] == [2 * BLOCK] * 6


def test_what_ran_before_is_reused_by_a_later_engine_run(llama: LoadedModel) -> None:
    (first,) = decode(
        llama, [request(prompt(2, 3 * BLOCK), max_tokens=BLOCK, ignore_eos=True)], config=REUSING
    )
    answered = request(np.append(first.text, prompt(3, 5)), max_tokens=9, ignore_eos=True)
    (alone,) = decode(llama, [answered])
    (second,) = decode(llama, [answered], config=REUSING)
    assert_equal(second, alone)
    assert second.finished.num_reused == 4 * BLOCK - BLOCK  # the newest output token was never computed


def test_a_prompt_that_is_known_wholly_still_gets_its_first_token(llama: LoadedModel) -> None:
    each = request(prompt(4, 2 * BLOCK), max_tokens=5, ignore_eos=True)
    first, second = (decode(llama, [each], config=REUSING)[0] for _ in range(2))
    assert_equal(second, first)
    assert second.finished.num_reused == BLOCK


def test_a_reused_beginning_takes_fewer_steps(llama: LoadedModel) -> None:
    long = request(prompt(5, 5 * BLOCK), max_tokens=1, ignore_eos=True)
    counts: list[int] = []

    def steps_of(config_each: GenerationRequest) -> Decoded:
        counts.append(0)

        def watch(engine: Engine) -> None:
            counts[-1] += 1

        return decode(llama, [config_each], config=REUSING, watch=watch)[0]

    assert_equal(steps_of(long), steps_of(long))
    assert counts[1] < counts[0]


def test_without_reuse_nothing_is_reused(llama: LoadedModel) -> None:
    each = request(prompt(6, 3 * BLOCK), max_tokens=3, ignore_eos=True)
    decode(llama, [each], config=REUSING)
    (plain,) = decode(llama, [each])
    assert plain.finished.num_reused == 0
