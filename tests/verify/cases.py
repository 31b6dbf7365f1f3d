"""What each prompt is asked with: greedy, or one of several ways to sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from decoder_service.forest import Int32Array
from decoder_service.request import GenerationRequest
from decoder_service.sampling import SamplingParams
from tests.verify.decode import request

FIRST_SEED: Final = 1000
SAMPLING: Final = (
    SamplingParams(temperature=0.7),
    SamplingParams(temperature=1.0, top_k=40),
    SamplingParams(temperature=0.8, top_p=0.9),
    SamplingParams(temperature=0.9, repetition_penalty=1.15),
    SamplingParams(temperature=0.6, top_k=50, top_p=0.95, repetition_penalty=1.1),
    SamplingParams(temperature=1.1, min_p=0.05),
)
MODES: Final = ("greedy", "sampled")


def cases(prompts: Sequence[Int32Array], mode: str, max_tokens: int) -> list[GenerationRequest]:
    """One plain request a prompt; when sampled, the parameters take turns and every prompt has its own seed.

    They end after ``max_tokens`` and nowhere else.
    """
    return [
        request(prompt, max_tokens=max_tokens, sampling=_sampling(mode, number), ignore_eos=True)
        for number, prompt in enumerate(prompts)
    ]


def _sampling(mode: str, number: int) -> SamplingParams:
    if mode == "greedy":
        return SamplingParams()
    return replace(SAMPLING[number % len(SAMPLING)], seed=FIRST_SEED + number)
