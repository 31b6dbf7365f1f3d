"""Lookahead decoding's 2-D window of guesses: Jacobi iteration whose trajectories give n-grams.

The window is a tree under the newest token x: level 0 is a chain that begins with x, and a cell of a deeper level hangs
under the cell above it. A cell's guess is what the model said after the cell above it, one step earlier. Source: Fu et
al. 2024, "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from decoder_service.draft import LookaheadShape
from decoder_service.forest import NO_PARENT, Int32Array

COLUMN_OF_X: Final = 0

Guess = Callable[[tuple[int, ...]], Int32Array]  # any tokens, in an array of that shape


class Window:
    """The guesses of one request. It fills by one level a step, then moves on by one position a step."""

    def __init__(self, shape: LookaheadShape, guess: Guess) -> None:
        self._shape = shape
        self._guess = guess
        self._levels = guess((1, shape.width))  # [levels so far, W]; [0, 0] stands for x
        self._ages = np.zeros(shape.width, dtype=np.int32)  # [W], steps since a column came in

    @property
    def tokens(self) -> Int32Array:
        """The cells' tokens, level by level, without x.  # [n]"""
        return self._levels.ravel()[1:]

    @property
    def parents(self) -> Int32Array:
        """Each cell's parent as an index into ``tokens``, NO_PARENT for a child of x.  # [n]"""
        width = self._shape.width
        cells = np.arange(1, self._levels.size, dtype=np.int32)
        above = np.where(cells < width, cells - 1, cells - width)
        return np.where(above == COLUMN_OF_X, NO_PARENT, above - 1).astype(np.int32)

    def advance(self, newest: int, said: Int32Array, num_emitted: int) -> Int32Array:
        """Take what the model said after x and after each cell; return the n-grams that it completes.

        ``newest`` is x, ``said`` [n + 1] the argmax of x's row and of each cell's row, ``num_emitted`` how many
        tokens the step emitted. The n-grams are [k, N]: one for each column whose cells have all been said.
        """
        shape = self._shape
        grown = np.concatenate([self._levels, said[-shape.width :].astype(np.int32)[None]])
        grown[0, COLUMN_OF_X] = newest
        self._ages += 1
        complete = np.flatnonzero(self._ages >= shape.num_levels)
        if len(grown) <= shape.num_levels:
            self._move(grown, num_emitted)
            return np.empty((0, shape.ngram_len), dtype=np.int32)
        self._move(grown[1:], num_emitted - 1)  # a level less is a position more
        return grown[:, complete].T.copy()

    def _move(self, levels: Int32Array, num_columns: int) -> None:
        """Leave out the columns that the text has passed; guesses come in behind the others."""
        num_columns = min(num_columns, self._shape.width)
        come_in = self._guess((len(levels), num_columns))
        self._levels = np.concatenate([levels[:, num_columns:], come_in], axis=1)
        self._ages = np.append(self._ages[num_columns:], np.zeros(num_columns, dtype=np.int32))
