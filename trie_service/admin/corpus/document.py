"""What a corpus holds: documents, and lines that are none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TokenArray = npt.NDArray[np.int64]  # [len]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns, oldest first."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TokenIds:
    """Text that is tokenized already. The leading ``context_len`` tokens are matched but never drafted."""

    ids: TokenArray
    context_len: int = 0


Content = str | Conversation | TokenIds


@dataclass(frozen=True, slots=True)
class Document:
    """Something to learn."""

    source: str  # the file's full path
    place: str  # for people: the file as it was named, and the line, row or piece
    position: int  # of the line, row or piece within the source, from 1 upwards
    content: Content
    end: int  # bytes of the source that are read by now


@dataclass(frozen=True, slots=True)
class BadLine:
    """A part of a source that is no document."""

    source: str
    place: str
    position: int
    reason: str
    end: int


@dataclass(frozen=True, slots=True)
class EndOfSource:
    """Nothing more comes from a source."""

    source: str
    end: int


Item = Document | BadLine | EndOfSource
