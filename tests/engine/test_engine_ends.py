"""Where a generation ends: end tokens, stop strings and limits cut accepted drafts as they cut plain steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from engine_cases import GREEDY, LENGTH, assert_equal, base, drafted, knowing, prompt

from decoder_service.model import LoadedModel
from decoder_service.request import FinishReason
from decoder_service.sampling import SamplingParams
from tests.verify.decode import (
    decode,
    request,
)


def first_end(output: Sequence[int], ends: set[int]) -> int:
    return next((place for place, token in enumerate(output) if token in ends), len(output))


@pytest.mark.parametrize("place", [0, 1, 7, 20])
def test_every_end_token_ends_an_accepted_run(
    llama: LoadedModel, sampling: SamplingParams, place: int
) -> None:
    long = base(llama, sampling)
    ends = {long.output[place], long.output[-1]}
    several = replace(llama, eos_token_ids=tuple(sorted(ends)))
    cut = first_end(long.output, ends)
    each = request(prompt(1), max_tokens=LENGTH, sampling=sampling)
    for found in (decode(several, [each])[0], decode(several, [drafted(each)], knowing(long))[0]):
        assert found.output == long.output[: cut + 1]
        assert found.finished.reason == FinishReason.STOP_TOKEN
        assert found.finished.matched_token == long.output[cut]
        assert found.finished.num_output == cut + 1


def test_stop_token_ids_work_beside_ignored_end_tokens(llama: LoadedModel, sampling: SamplingParams) -> None:
    long = base(llama, sampling)
    stop = long.output[25]
    eager = replace(llama, eos_token_ids=(long.output[2],))
    each = request(
        prompt(1), max_tokens=LENGTH, sampling=sampling, ignore_eos=True, token_ids=frozenset({stop})
    )
    cut = first_end(long.output, {stop})
    for found in (decode(eager, [each])[0], decode(eager, [drafted(each)], knowing(long))[0]):
        assert found.output == long.output[: cut + 1]
        assert found.finished.matched_token == stop


@pytest.mark.parametrize("min_tokens", [1, 5, 12])
def test_end_tokens_wait_for_min_tokens(
    llama: LoadedModel, sampling: SamplingParams, min_tokens: int
) -> None:
    early = replace(llama, eos_token_ids=tuple(set(base(llama, sampling).output[:4])))
    each = request(prompt(1), max_tokens=LENGTH, sampling=sampling, min_tokens=min_tokens)
    (plain,) = decode(early, [each])
    (fast,) = decode(early, [drafted(each)], knowing(plain))
    assert_equal(fast, plain)
    assert len(plain.output) >= min_tokens
    assert not set(plain.output[: min_tokens - 1]) & set(early.eos_token_ids)


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 5, 8, 13, 21, 34])
def test_max_tokens_cuts_an_accepted_run(
    llama: LoadedModel, sampling: SamplingParams, max_tokens: int
) -> None:
    long = base(llama, sampling)
    each = drafted(request(prompt(1), max_tokens=max_tokens, sampling=sampling, ignore_eos=True))
    (found,) = decode(llama, [each], knowing(long))
    assert found.output == long.output[:max_tokens]
    assert found.finished.reason == FinishReason.LENGTH
    assert found.finished.matched_token is None
    assert len(found.steps) <= max(max_tokens // 2, 2)


@pytest.mark.parametrize(("start", "length"), [(0, 1), (0, 3), (5, 2), (11, 6), (30, 4)])
def test_a_stop_string_ends_an_accepted_run(
    llama: LoadedModel, sampling: SamplingParams, start: int, length: int
) -> None:
    long = base(llama, sampling)
    string = long.shown[start : start + length]
    at = long.shown.find(string)
    each = request(
        prompt(1), max_tokens=LENGTH, sampling=sampling, ignore_eos=True, strings=("never", string)
    )
    (plain,) = decode(llama, [each])
    (fast,) = decode(llama, [drafted(each)], knowing(long))
    assert_equal(fast, plain)
    assert fast.shown == long.shown[:at]
    assert fast.finished.reason == FinishReason.STOP_STRING
    assert fast.finished.matched_string == string
    assert fast.output == long.output[: len(fast.output)]


def test_text_that_began_a_stop_string_is_shown_at_the_end(llama: LoadedModel) -> None:
    long = base(llama, GREEDY)
    each = request(prompt(1), max_tokens=LENGTH, ignore_eos=True, strings=(long.shown[-3:] + "!",))
    (fast,) = decode(llama, [drafted(each)], knowing(long))
    assert (fast.shown, fast.finished.reason) == (long.shown, FinishReason.LENGTH)
