"""Requests, and what runs of them are compared by, for tests of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from tiny_model import VOCAB

from decoder_service.draft import DraftSource
from decoder_service.forest import Int32Array
from decoder_service.model import LoadedModel
from decoder_service.request import GenerationRequest
from decoder_service.sampling import SamplingParams
from decoder_service.step_cost import StepCost
from tests.verify.decode import (
    DRAFTED,
    Decoded,
    decode,
    request,
    same_bits,
)
from tests.verify.proposals import RecordedSource

DTYPES = [torch.float32, torch.bfloat16]
GREEDY = SamplingParams()
SAMPLED = SamplingParams(temperature=0.8, top_k=30, top_p=0.95, min_p=0.01, repetition_penalty=1.2, seed=11)
MODES = {"greedy": GREEDY, "sampled": SAMPLED}
LENGTH = 40


class FixedCost(StepCost):
    """Learns nothing from this machine's steps."""

    def observe(self, num_rows: int, context_len: float, milliseconds: float) -> None:
        assert milliseconds > 0
        assert num_rows > 0


def prompt(seed: int, length: int = 20) -> Int32Array:
    return np.random.default_rng(seed).integers(2, VOCAB, length).astype(np.int32)


def drafted(each: GenerationRequest) -> GenerationRequest:
    return replace(each, drafts=DRAFTED)


def knowing(*decoded: Decoded) -> list[DraftSource]:
    return [RecordedSource([each.text for each in decoded], VOCAB)]


def base(model: LoadedModel, sampling: SamplingParams, seed: int = 1, length: int = LENGTH) -> Decoded:
    """A long plain run that no end token stops."""
    return decode(model, [request(prompt(seed), max_tokens=length, sampling=sampling, ignore_eos=True)])[0]


def assert_equal(left: Decoded, right: Decoded) -> None:
    assert left.text.tolist() == right.text.tolist()
    assert left.output == right.output
    assert (left.shown, left.finished.reason) == (right.shown, right.finished.reason)
    assert left.finished.matched_string == right.finished.matched_string
    assert left.finished.matched_token == right.finished.matched_token
    assert same_bits(left.computed.logits, right.computed.logits)
    assert same_bits(left.computed.keys, right.computed.keys)
    assert same_bits(left.computed.values, right.computed.values)


def assert_all_equal(left: Sequence[Decoded], right: Sequence[Decoded]) -> None:
    for one, other in zip(left, right, strict=True):
        assert_equal(one, other)


def ragged_requests() -> list[GenerationRequest]:
    """Different lengths, parameters and stops; two prompts are longer than what a step prefills."""
    lengths, outputs = (3, 150, 40, 1, 77, 230, 20), (50, 20, 1, 64, 9, 30, 40)
    return [
        request(
            prompt(seed, length),
            max_tokens=max_tokens,
            sampling=replace(SAMPLED, seed=seed) if seed % 2 else GREEDY,
            ignore_eos=seed % 3 == 0,
        )
        for seed, (length, max_tokens) in enumerate(zip(lengths, outputs, strict=True))
    ]
