"""What probability the model itself gave the tokens, before any sampling parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

MAX_TOP = 20


class TokenLogprob(NamedTuple):
    """A token and the natural logarithm of its probability."""

    token: int
    logprob: float


@dataclass(frozen=True, slots=True)
class EmittedLogprob:
    """What the model gave an emitted token, and the likeliest tokens there."""

    logprob: float
    top: list[TokenLogprob]  # likeliest first; of equals the lowest id first


def logprob_of(logits: torch.Tensor, token: int, num_top: int) -> EmittedLogprob:
    """Of one row of logits, [vocab]; computed in float32, a row by itself, so that it depends on the row alone."""
    logprobs = torch.log_softmax(logits.to(torch.float32), dim=-1).cpu().numpy()
    top = [TokenLogprob(each, float(logprobs[each])) for each in _likeliest(logprobs, num_top)]
    return EmittedLogprob(float(logprobs[token]), top)


def _likeliest(values: npt.NDArray[np.float32], num: int) -> list[int]:
    """Indices of the largest values of [n]; bfloat16 logits are often equal, and a partition breaks ties at will."""
    num = min(num, len(values))
    if num == 0:
        return []
    least = np.partition(values, -num)[-num]
    candidates = np.flatnonzero(values >= least)
    order = np.argsort(-values[candidates], kind="stable")[:num]
    return candidates[order].tolist()  # type: ignore[no-any-return]
