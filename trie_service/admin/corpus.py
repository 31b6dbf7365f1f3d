"""Documents out of files: .txt, and .jsonl with a text, a conversation or token ids a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trie_service.admin.errors import AdminError

MAX_TEXT_BYTES = 16 << 10  # a .txt file is cut at blank lines into documents of about this size


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns, oldest first."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Text that is tokenized already."""

    ids: tuple[int, ...]


Content = str | Conversation | TokenIds


@dataclass(frozen=True, slots=True)
class Document:
    """Something to learn."""

    name: str  # file name and line number
    content: Content
    num_bytes: int  # of the file


def read_documents(path: Path) -> Iterator[Document]:
    """The documents of a file; raise AdminError with the line that cannot be understood."""
    readers = {".txt": _read_text, ".jsonl": _read_jsonl}
    reader = readers.get(path.suffix)
    if reader is None:
        raise AdminError(f"{path}: neither .txt nor .jsonl")
    try:
        yield from reader(path)
    except (OSError, UnicodeDecodeError) as error:
        raise AdminError(f"{path}: {error}") from error


def _read_text(path: Path) -> Iterator[Document]:
    lines: list[str] = []
    size = first = 0
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            lines.append(line)
            size += len(line.encode())
            if size >= MAX_TEXT_BYTES and not line.strip():
                yield Document(f"{path.name}:{first + 1}", "".join(lines), size)
                lines, size, first = [], 0, number
    if "".join(lines).strip():
        yield Document(f"{path.name}:{first + 1}", "".join(lines), size)


def _read_jsonl(path: Path) -> Iterator[Document]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                place = f"{path.name}:{number}"
                yield Document(place, _content(line, place), len(line.encode()))


def _content(line: str, place: str) -> Content:
    try:
        row: Any = json.loads(line)
        if "tokens" in row:
            return TokenIds(tuple(int(token) for token in row["tokens"]))
        if "messages" in row:
            return Conversation(
                tuple(Message(_text(turn["role"]), _text(turn["content"])) for turn in row["messages"])
            )
        return _text(row["text"])
    except (ValueError, KeyError, TypeError) as error:
        raise AdminError(
            f'{place}: not a JSON object with "text", "messages" (of "role" and "content") or "tokens"'
        ) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
