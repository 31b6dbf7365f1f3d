"""Mixes the sources' estimates for one drafted token into one probability.

An online logistic mixer, as in PAQ: a weighted sum of logits, with weights of its own for every situation,
learned by gradient descent on coding cost. A situation is the role of each source (it is silent, proposes a
rival only, or proposes the token) and the length of the longest match.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from decoder_service.calibration import Float32Array
from decoder_service.compiled import compiled
from decoder_service.forest import Int32Array
from decoder_service.joined_tree import PROPOSES

NUM_ROLES: Final = PROPOSES + 1
LEARNING_RATE: Final = 0.02
MOST_LOGIT: Final = 8.0


class Mixer:
    """Weights by situation. Not thread-safe.

    In the methods logits and roles are [n, sources], lengths (a class of match lengths) and hits [n]; a
    logit is 0 where a source does not propose the token.
    """

    def __init__(self, num_sources: int, num_lengths: int) -> None:
        self._num_sources = num_sources
        self._weights = np.zeros((num_lengths * NUM_ROLES**num_sources, num_sources + 1), dtype=np.float32)
        roles = np.arange(len(self._weights))[:, None] // NUM_ROLES ** np.arange(num_sources) % NUM_ROLES
        num_proposers = np.maximum((roles == PROPOSES).sum(axis=1, keepdims=True), 1)
        self._weights[:, :-1] = num_proposers**-0.5  # the last column is the bias

    def mix(self, logits: Float32Array, roles: Int32Array, lengths: Int32Array) -> Float32Array:
        """The probability of each token.  # [n]"""
        return _mix(self._weights, logits, self._situations(roles, lengths))

    def learn(
        self, logits: Float32Array, roles: Int32Array, lengths: Int32Array, hits: npt.NDArray[np.bool_]
    ) -> None:
        """Learn whether the model took each token, given that its context was right."""
        _learn(self._weights, logits, self._situations(roles, lengths), hits)

    def _situations(self, roles: Int32Array, lengths: Int32Array) -> npt.NDArray[np.int64]:
        places = NUM_ROLES ** np.arange(self._num_sources + 1)
        situations: npt.NDArray[np.int64] = roles @ places[:-1] + lengths * places[-1]
        return situations


@compiled
def _mix(weights: Float32Array, logits: Float32Array, situations: npt.NDArray[np.int64]) -> Float32Array:
    mixed = np.empty(len(logits), np.float32)
    for i in range(len(logits)):
        chosen = weights[situations[i]]
        total = chosen[-1]
        for source in range(logits.shape[1]):
            total += chosen[source] * logits[i, source]
        mixed[i] = 1.0 / (1.0 + np.exp(-min(max(total, -MOST_LOGIT), MOST_LOGIT)))
    return mixed


@compiled
def _learn(
    weights: Float32Array,
    logits: Float32Array,
    situations: npt.NDArray[np.int64],
    hits: npt.NDArray[np.bool_],
) -> None:
    for i in range(len(logits)):
        mixed = _mix(weights, logits[i : i + 1], situations[i : i + 1])[0]
        step = LEARNING_RATE * (hits[i] - mixed)
        chosen = weights[situations[i]]
        chosen[-1] += step
        for source in range(logits.shape[1]):
            chosen[source] += step * logits[i, source]
