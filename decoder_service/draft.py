"""What a draft source proposes, and the protocol that every source follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from decoder_service.forest import Int32Array

NUM_OPINIONS: Final = 2  # further estimates that a source may add to a node's evidence
NO_OPINION: Final = 0.5
UNKNOWN_TOKEN: Final = -1
MAX_DEPTH: Final = 256  # of a draft, nodes


class Source(IntEnum):
    """Who proposed a token. The values are those of TokenSource on the wire."""

    MODEL = 1
    OWN = 2
    INDEX = 3
    LOOKAHEAD = 4
    DRAFT_MODEL = 5


def _no_opinions() -> npt.NDArray[np.float32]:
    return np.empty((0, NUM_OPINIONS), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class DraftTree:
    """A tree of guesses under the newest token, with the evidence of each node.

    All arrays have one entry a node; parents (-1: child of the newest token) come before children. Opinions are
    the source's own estimates that a token comes next if its context is right, 0 to 1, by other rules than the
    evidence; a source may have none.
    """

    tokens: Int32Array  # [n]
    parents: Int32Array  # [n]
    orders: Int32Array  # [n], length of the suffix that matched
    counts: Int32Array  # [n], how often the token followed that suffix
    totals: Int32Array  # [n], how often anything followed it
    opinions: npt.NDArray[np.float32] = field(default_factory=_no_opinions)  # [n or 0, NUM_OPINIONS]
    newest: int = UNKNOWN_TOKEN  # the token that the tree hangs under

    @classmethod
    def empty(cls) -> DraftTree:
        """A draft without nodes."""
        none = np.empty(0, dtype=np.int32)
        return cls(none, none, none, none, none)

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class LookaheadShape:
    """W, N and G of Lookahead decoding (Fu et al. 2024). Raises ValueError for a shape that makes no sense."""

    width: int  # W, columns of the window
    ngram_len: int  # N; 2 without candidates is Jacobi decoding
    num_candidates: int  # G, n-grams kept for each first token

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"window {self.width} is not at least 1")
        if self.ngram_len < 2:
            raise ValueError(f"ngram {self.ngram_len} is not at least 2")
        if self.num_candidates < 0:
            raise ValueError(f"candidates {self.num_candidates} is negative")

    @property
    def num_levels(self) -> int:
        """Levels of a full window."""
        return self.ngram_len - 1

    @property
    def num_rows(self) -> int:
        """Rows that a full window adds to a step."""
        return self.width * self.num_levels - 1


DEFAULT_LOOKAHEAD: Final = LookaheadShape(5, 3, 5)


class Chooser(Protocol):
    """How a request chooses its tokens, for sources that can guess in the same way."""

    def scores(self, logits: Any, history: Sequence[int]) -> npt.NDArray[Any]:  # noqa: ANN401 - a torch.Tensor
        """What the request takes the argmax of after ``history``, noise included.  # both [vocab]"""


@dataclass(frozen=True, slots=True)
class DraftAsk:
    """One request's question to a source: what may follow this text?"""

    request_id: int
    text: Int32Array  # [len], prompt and output, the newest token last
    max_nodes: int
    namespace: str  # of the index; other sources ignore it
    lookahead: LookaheadShape = DEFAULT_LOOKAHEAD
    max_depth: int = MAX_DEPTH  # nodes of a path that could be accepted
    chooser: Chooser | None = None


class DraftSource(Protocol):
    """Proposes drafts. Called by the device thread alone; never raises for want of a draft."""

    source: Source

    def begin(self, asks: Sequence[DraftAsk]) -> None:
        """Ask for one draft each; return at once."""

    def collect(self) -> list[DraftTree]:
        """The drafts of the last ``begin``, in its order; empty ones where there is none in time."""

    def close(self, request_id: int) -> None:
        """Forget what is kept for a request."""


@runtime_checkable
class WindowSource(DraftSource, Protocol):
    """A source that also has rows of its own in a step, to see what the model says after them."""

    def rows(self, ask: DraftAsk) -> tuple[Int32Array, Int32Array]:
        """Tokens and parents of the rows, NO_PARENT for a child of the newest token.  # both [n]"""

    def observe(self, request_id: int, newest: int, said: Int32Array, num_emitted: int) -> None:
        """Take the argmax after the newest token and after each of ``rows``.  # said [n + 1]

        ``num_emitted`` is how many tokens the step gave.
        """


@dataclass(frozen=True, slots=True)
class PlannedDraft:
    """What one request will have verified in a step: nodes under its newest token.

    Drafts come first, and those of siblings differ; then the window's rows, of which nothing is expected.
    """

    tokens: Int32Array  # [n]
    parents: Int32Array  # [n], -1: child of the newest token
    sources: npt.NDArray[np.int8]  # [n], Source of the better evidence
    probabilities: npt.NDArray[np.float32]  # [n], of the path down to the node; 0 for the window's rows
    num_window_rows: int = 0

    @property
    def expected(self) -> float:
        """Nodes that should be accepted, by the estimates."""
        return float(self.probabilities.sum())

    def __len__(self) -> int:
        return len(self.tokens)
