"""How a token is chosen from logits: argmax, or a seeded sample whose noise no draft can touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    MinNewTokensLengthLogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

_UNIFORM_STEP = 2.0**-53
_GREEDY_BELOW = 1e-5  # temperature: logits divided by less may overflow


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to choose the next token; validated by :func:`decoder_service.request.validate`."""

    temperature: float = 0.0  # below 1e-5: greedy
    top_k: int = 0  # 0: off
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    logit_bias: dict[int, float] = field(default_factory=dict)


class Sampler:
    """Chooses one request's tokens.

    A sample is the argmax of the processed logits plus Gumbel noise (the Gumbel-max trick), and the noise is a
    function of seed, absolute position and vocabulary id alone: the counter-based generator Philox4x64 (Salmon et
    al. 2011) at the counter (0, 0, 0, position). Drafts therefore consume no randomness, and a resumed stream goes on
    with the noise that it would have had.
    """

    def __init__(
        self, params: SamplingParams, prompt_len: int, min_tokens: int, eos_token_ids: Sequence[int]
    ) -> None:
        self._params = params
        self._is_greedy = params.temperature < _GREEDY_BELOW
        self._processors = _processors(params, prompt_len, min_tokens, eos_token_ids)
        self.is_plain_greedy = self._is_greedy and len(self._processors) == 0

    def choose(self, logits: torch.Tensor, history: Sequence[int]) -> int:
        """The token after ``history`` (prompt and output), given the logits [vocab] of its last token."""
        scores = self._processed(logits, history)
        if self._is_greedy:
            return argmax(scores)
        return gumbel_argmax(scores.cpu().numpy(), self._params.seed, len(history))

    def scores(self, logits: torch.Tensor, history: Sequence[int]) -> np.ndarray:
        """What ``choose`` takes the argmax of: processed logits and, where it samples, their noise.  # [vocab]"""
        scores = self._processed(logits, history).to(torch.float32).cpu().numpy()
        return scores if self._is_greedy else with_gumbel(scores, self._params.seed, len(history))

    def _processed(self, logits: torch.Tensor, history: Sequence[int]) -> torch.Tensor:
        if self.is_plain_greedy:
            return logits
        scores = logits[None].to(torch.float32, copy=True)
        input_ids = torch.tensor([history], dtype=torch.long, device=logits.device)
        return self._processors(input_ids, scores)[0]  # type: ignore[no-any-return]


def argmax(logits: torch.Tensor) -> int:
    """The first index of the largest value."""
    return int(logits.to(torch.float32).cpu().numpy().argmax())


def argmax_rows(logits: torch.Tensor) -> list[int]:
    """The first index of the largest value of each row of [rows, vocab]."""
    return logits.to(torch.float32).cpu().numpy().argmax(axis=-1).tolist()  # type: ignore[no-any-return]


def gumbel_argmax(scores: np.ndarray, seed: int, position: int) -> int:
    """A sample of softmax(scores) [vocab]: the argmax of scores + Gumbel(seed, position, vocabulary id).

    Where every score is -inf there is nothing to choose from: token 0, as argmax gives.
    """
    return int(with_gumbel(scores, seed, position).argmax())


def with_gumbel(scores: np.ndarray, seed: int, position: int) -> np.ndarray:
    """scores + Gumbel(seed, position, vocabulary id), float64; -inf and NaN become -inf.  # both [vocab]"""
    noisy = np.full(len(scores), -np.inf)
    kept = np.flatnonzero(scores > -np.inf)
    if len(kept):
        raw = np.random.Philox(key=seed, counter=[0, 0, 0, position]).random_raw(len(scores))
        uniform = ((raw[kept] >> np.uint64(11)).astype(np.float64) + 0.5) * _UNIFORM_STEP
        noisy[kept] = scores[kept].astype(np.float64) - np.log(-np.log(uniform))
    return noisy


class _LogitBias(LogitsProcessor):  # type: ignore[misc]
    """Adds a constant to the logits of some tokens."""

    def __init__(self, bias: dict[int, float]) -> None:
        self._ids = torch.tensor(list(bias), dtype=torch.long)
        self._values = torch.tensor(list(bias.values()), dtype=torch.float32)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        biased = scores.clone()
        biased[:, self._ids.to(scores.device)] += self._values.to(scores.device)
        return biased


def _processors(
    params: SamplingParams, prompt_len: int, min_tokens: int, eos_token_ids: Sequence[int]
) -> LogitsProcessorList:
    """transformers' own processors in the order in which its ``generate`` applies them."""
    chosen = LogitsProcessorList()
    if params.logit_bias:
        chosen.append(_LogitBias(params.logit_bias))
    if params.repetition_penalty != 1.0:
        chosen.append(RepetitionPenaltyLogitsProcessor(params.repetition_penalty))
    if min_tokens > 0 and eos_token_ids:
        chosen.append(MinNewTokensLengthLogitsProcessor(prompt_len, min_tokens, list(eos_token_ids)))
    if params.temperature < _GREEDY_BELOW:
        return chosen
    if params.temperature != 1.0:
        chosen.append(TemperatureLogitsWarper(params.temperature))
    if params.top_k > 0:
        chosen.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1.0:
        chosen.append(TopPLogitsWarper(params.top_p))
    if params.min_p > 0:
        chosen.append(MinPLogitsWarper(params.min_p))
    return chosen
