"""Recorded conversations as token ids: what a replay drafts for.

A file holds one answer a line, ``{"id", "turn", "delta": [...], "out": [...]}``. The context of an answer is
everything of earlier consecutive lines with the same id, then its own ``delta``; ``out`` is the answer.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from decoder_service.errors import DecoderError
from decoder_service.forest import Int32Array

VOCAB_LIMIT: Final = 1 << 24  # token ids are below this


class BadTrace(DecoderError):
    """A trace cannot be read; the text names the file and the line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One recorded answer and what it was an answer to."""

    text: Int32Array  # [len], context and answer
    num_output: int  # of these the last so many are the answer

    @property
    def context_len(self) -> int:
        """Tokens before the answer."""
        return len(self.text) - self.num_output


@dataclass(frozen=True, slots=True)
class _Line:
    conversation: str
    delta: list[int]
    out: list[int]


def read_trace(path: Path, limit: int | None = None) -> list[Answer]:
    """The first ``limit`` answers of a .jsonl or .jsonl.gz file that hold a token; raise BadTrace."""
    answers: list[Answer] = []
    conversation, text = "", list[int]()
    for line in _lines(path):
        if limit is not None and len(answers) == limit:
            break
        if line.conversation != conversation:
            conversation, text = line.conversation, []
        text = [*text, *line.delta, *line.out]
        if len(text) == len(line.out):
            raise BadTrace(f"{path}: conversation {conversation!r} begins with an answer to nothing")
        if line.out:
            answers.append(Answer(np.array(text, dtype=np.int32), len(line.out)))
    if not answers:
        raise BadTrace(f"{path} holds no answer")
    return answers


def _lines(path: Path) -> Iterator[_Line]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open() as file:
            for number, text in enumerate(file, 1):
                if text.strip():
                    yield _parse(text, f"{path}, line {number}")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise BadTrace(f"{path} cannot be read: {error}") from error


def _parse(text: str, place: str) -> _Line:
    try:
        fields = json.loads(text)
        if not isinstance(fields, dict) or not {"id", "delta", "out"} <= fields.keys():
            raise ValueError('not an object with "id", "delta" and "out"')
        return _Line(str(fields["id"]), _tokens(fields, "delta"), _tokens(fields, "out"))
    except ValueError as error:
        raise BadTrace(f"{place}: {error}") from error


def _tokens(fields: dict[str, object], name: str) -> list[int]:
    """Raise ValueError for a field that is no list of token ids."""
    tokens = fields[name]
    if not isinstance(tokens, list):
        raise ValueError(f'"{name}" is no list')
    for token in tokens:
        if type(token) is not int or not 0 <= token < VOCAB_LIMIT:
            raise ValueError(f'{token!r} in "{name}" is no token id below {VOCAB_LIMIT}')
    return tokens
