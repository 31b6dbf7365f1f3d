"""Which learned sequences a ring of words holds, and where, so that one can be taken back by its name.

The words of a ring are counted from the first one ever written to it. Names are kept as hashes of 64 bits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]

BYTES_PER_ROW: Final = 448  # of Python objects, about
NUM_COLUMNS: Final = 5
ROWS_AT_ONCE: Final = 512  # converted without letting another thread run


class Row(NamedTuple):
    """One sequence that the ring holds, or the rest of it."""

    name_hash: int
    appended_ms: int  # when it was learned, since 1970
    start: int  # its first word
    num_words: int
    num_tokens: int  # of them, context and separators not counted

    @property
    def end(self) -> int:
        """The word after its last one."""
        return self.start + self.num_words


def hash_of(sequence_id: str) -> int:
    """What stands for a name; equal at all replicas."""
    return int.from_bytes(blake2b(sequence_id.encode(), digest_size=8).digest(), "little", signed=True)


class Ledger:
    """Rows, oldest first, found by the hash of their name."""

    def __init__(self) -> None:
        self._rows: OrderedDict[int, Row] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, sequence_id: str) -> Row | None:
        """The sequence of that name."""
        return self._rows.get(hash_of(sequence_id))

    def oldest(self) -> Row | None:
        """The sequence that leaves next."""
        return next(iter(self._rows.values()), None)

    def add(self, row: Row) -> None:
        """Take note of a sequence that was written after all others."""
        self._rows[row.name_hash] = row

    def remove(self, row: Row) -> None:
        """Drop a row."""
        del self._rows[row.name_hash]

    def drop_before(self, word: int) -> None:
        """Drop the sequences that end at or before a word."""
        while (row := self.oldest()) is not None and row.end <= word:
            self.remove(row)

    def to_array(self, end: int) -> Int64Array:
        """All rows [row, column], ``start`` counted back from word ``end``."""
        array = np.empty((len(self._rows), NUM_COLUMNS), dtype=np.int64)
        rows = iter(self._rows.values())
        for first in range(0, len(array), ROWS_AT_ONCE):
            some = [row._replace(start=end - row.start) for row in islice(rows, ROWS_AT_ONCE)]
            array[first : first + len(some)] = some
        return array

    @classmethod
    def from_array(cls, rows: Int64Array, end: int) -> Ledger:
        """What ``to_array`` gave; ValueError for rows that overlap or lie outside of 0 to ``end``."""
        if rows.dtype != np.int64 or rows.ndim != 2 or rows.shape[1] != NUM_COLUMNS:
            raise ValueError(f"rows are {rows.dtype}{list(rows.shape)}, not int64[n, {NUM_COLUMNS}]")
        ledger = cls()
        last = -(1 << 62)
        for values in _lists_of(rows):
            row = Row(*values)._replace(start=end - values[2])
            if row.start < last or row.num_words < 0 or row.end > end or row.name_hash in ledger._rows:
                raise ValueError(f"row {len(ledger)} of the sequences makes no sense: {values}")
            last = row.end
            ledger.add(row)
        return ledger


def _lists_of(rows: Int64Array) -> Iterator[list[int]]:
    for first in range(0, len(rows), ROWS_AT_ONCE):
        yield from rows[first : first + ROWS_AT_ONCE].tolist()
