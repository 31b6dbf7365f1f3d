"""The likeliest candidates of a draft that may still join it, in order.

At most as many as nodes may still join: further ones never would. That is few, so a sorted array beats a heap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trie_service.compiled import compiled


class Frontier(NamedTuple):
    """Candidates by rising likelihood; of equals the earlier comes last, and so is taken first."""

    likelihoods: npt.NDArray[np.float64]  # [place]
    candidates: npt.NDArray[np.int32]  # [place]


@compiled
def offer(frontier: Frontier, size: int, room: int, likelihood: float, candidate: int) -> int:
    """Let a candidate join the ``size`` that are there, the ``room`` best of which stay; return the new size."""
    likelihoods, candidates = frontier
    if size < room:
        place = size
        while place > 0 and likelihoods[place - 1] >= likelihood:
            likelihoods[place] = likelihoods[place - 1]
            candidates[place] = candidates[place - 1]
            place -= 1
        size += 1
    else:
        if room == 0 or likelihood <= likelihoods[0]:
            return size
        place = 0
        while place + 1 < size and likelihoods[place + 1] < likelihood:
            likelihoods[place] = likelihoods[place + 1]
            candidates[place] = candidates[place + 1]
            place += 1
    likelihoods[place] = likelihood
    candidates[place] = candidate
    return size
