"""Mixes all estimates for the tokens that may come next into one probability each.

Siblings exclude each other, so the mixer is a conditional logit model: a token's score is a weighted sum of the
logits of its estimates, and probability is shared out among the siblings and the event that none of them comes.
As in PAQ (Mahoney 2005) the weights are several sets, each chosen by a view of the situation of its own, their
sums added up, and they are learned online by gradient descent on coding cost. Each weight has a rate of its own
that falls with the gradients that it has seen (AdaGrad: Duchi, Hazan and Singer 2011): most situations are rare,
and what is rare must be learned from few trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from decoder_service.calibration import Float32Array
from decoder_service.compiled import compiled
from decoder_service.forest import Int32Array

LEARNING_RATE: Final = 0.2
FIRST_GRADIENTS: Final = 100.0  # squared, summed up, that a weight counts as having seen
FIRST_WEIGHT: Final = 0.3
BIAS_INPUT: Final = 10.0  # of which each set has one; the larger, the sooner a bias is learned
MOST_SCORE: Final = 8.0


class Mixer:
    """Weights by situation. Not thread-safe.

    In the methods inputs are [n, inputs] (logits, 0 where there is no estimate), situations [n, views] and
    parents [n], -1 or an earlier token.
    """

    def __init__(self, num_inputs: int, view_sizes: Sequence[int]) -> None:
        """Each view tells ``view_sizes`` situations apart, numbered from 0."""
        self._views = np.cumsum([0, *view_sizes[:-1]]).astype(np.int32)  # first row of each view
        shape = (sum(view_sizes), num_inputs + 1, 2)
        self._weights = np.empty(shape, np.float32)  # and their gradients, squared and summed up
        self._weights[:, :, 0] = FIRST_WEIGHT / len(view_sizes)
        self._weights[:, -1, 0] = 0.0  # of the bias
        self._weights[:, :, 1] = FIRST_GRADIENTS

    def mix(self, inputs: Float32Array, situations: Int32Array, parents: Int32Array) -> Float32Array:
        """The probability of each token, given that its context is right.  # [n]"""
        return _mix(self._weights, inputs, situations + self._views, parents)

    def learn(self, inputs: Float32Array, situations: Int32Array, errors: Float32Array) -> None:
        """Learn from tokens whose context was right; an error is 1 or 0 less the probability.  # [n]"""
        _learn(self._weights, inputs, situations + self._views, errors)


@compiled
def _mix(weights: Float32Array, inputs: Float32Array, rows: Int32Array, parents: Int32Array) -> Float32Array:
    num_tokens, num_inputs = inputs.shape
    mixed = np.empty(num_tokens, np.float32)
    totals = np.ones(num_tokens + 1, np.float32)  # by parent, the last for -1; 1 is the score of no sibling
    for i in range(num_tokens):
        score = np.float32(0.0)
        for view in range(rows.shape[1]):
            chosen = weights[rows[i, view]]
            score += chosen[num_inputs, 0] * np.float32(BIAS_INPUT)
            for k in range(num_inputs):
                score += chosen[k, 0] * inputs[i, k]
        mixed[i] = math.exp(min(max(float(score), -MOST_SCORE), MOST_SCORE))
        totals[parents[i]] += mixed[i]
    for i in range(num_tokens):
        mixed[i] /= totals[parents[i]]
    return mixed


@compiled
def _learn(weights: Float32Array, inputs: Float32Array, rows: Int32Array, errors: Float32Array) -> None:
    num_tokens, num_inputs = inputs.shape
    rate = LEARNING_RATE / rows.shape[1]
    for i in range(num_tokens):
        for view in range(rows.shape[1]):
            chosen = weights[rows[i, view]]
            _descend(chosen[num_inputs], errors[i] * BIAS_INPUT, rate)
            for k in range(num_inputs):
                if inputs[i, k] != 0:  # most sources say nothing of a token
                    _descend(chosen[k], errors[i] * inputs[i, k], rate)


@compiled
def _descend(weight: Float32Array, gradient: float, rate: float) -> None:
    """Take a step against the coding cost, whose negative gradient is given."""
    weight[1] += gradient * gradient
    weight[0] += rate * gradient / math.sqrt(weight[1])
