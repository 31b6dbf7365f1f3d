"""What a namespace holds at one position of its log, to be kept, copied and taken up again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Complete up to ``position`` of the log, that entry included."""

    position: str
    number: int  # of the entry at ``position``; 0 before the first
    arrays: Arrays
    extra: Mapping[str, Any] = field(default_factory=dict)  # what JSON can carry

    @property
    def num_bytes(self) -> int:
        """Bytes of the arrays."""
        return sum(np.asarray(array).nbytes for array in self.arrays.values())
