"""Reads sources into documents."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from trie_service.admin.corpus.arrays import read_npy, read_parquet
from trie_service.admin.corpus.document import BadLine, Document, EndOfSource, Item
from trie_service.admin.corpus.lines import Line, lines_of
from trie_service.admin.corpus.rows import BadRowError, RowReader
from trie_service.admin.corpus.sources import Source
from trie_service.admin.errors import AdminError
from trie_service.admin.extras import required

MAX_TEXT_BYTES = 16 << 10  # a .txt file is cut at blank lines into documents of about this size
LONGEST_TEXT_BYTES = 1 << 20  # without a blank line it is cut after a line


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How rows are understood."""

    text_field: str = "text"


def read_corpus(sources: Iterable[Source], options: ReadOptions) -> Iterator[Item]:
    """Everything that the sources hold; ``end`` counts bytes from the first source on."""
    before = 0
    for source in sources:
        for item in read_source(source, options):
            yield replace(item, end=before + item.end)
        before += source.num_bytes


def read_source(source: Source, options: ReadOptions) -> Iterator[Item]:
    """Documents and bad lines of one source, and its end. A file that breaks off has a bad line for an end.

    Raises AdminError where a library is missing.
    """
    position = 0
    try:
        for item in _read(source, options):
            position = item.position
            yield item
    except AdminError:
        raise
    except _errors_of(source) as error:
        yield BadLine(source.identity, source.name, position, _why(error), source.num_bytes)
    else:
        yield EndOfSource(source.identity, source.num_bytes)


def _read(source: Source, options: ReadOptions) -> Iterator[Document | BadLine]:
    if source.kind == "parquet":
        yield from read_parquet(source, RowReader(options.text_field))
    elif source.kind == "npy":
        yield from read_npy(source)
    else:
        with lines_of(source) as lines:
            yield from _read_lines(source, options, lines)


def _read_lines(source: Source, options: ReadOptions, lines: Iterator[Line]) -> Iterator[Document | BadLine]:
    first = next(lines, None)
    if first is None:
        return
    is_jsonl = source.kind == "jsonl" if source.kind else first.data.lstrip().startswith(b"{")
    whole = _chained(first, lines)
    yield from (
        _read_jsonl(source, RowReader(options.text_field), whole) if is_jsonl else _read_text(source, whole)
    )


def _chained(first: Line, rest: Iterator[Line]) -> Iterator[Line]:
    yield first
    yield from rest


def _read_jsonl(source: Source, rows: RowReader, lines: Iterator[Line]) -> Iterator[Document | BadLine]:
    identity = source.identity
    for line in lines:
        if line.data.isspace():
            continue
        place = f"{source.name}:{line.number}"
        try:
            content = rows.content(json.loads(line.data))
        except (BadRowError, ValueError, RecursionError) as error:
            yield BadLine(identity, place, line.number, _why(error), line.end)
        else:
            yield Document(identity, place, line.number, content, line.end)


def _read_text(source: Source, lines: Iterator[Line]) -> Iterator[Document | BadLine]:
    """Pieces of text; a line that is not UTF-8 is left out. Positions count pieces and bad lines."""
    identity = source.identity
    texts: list[str] = []
    position = size = first = end = 0
    for line in lines:
        try:
            text = line.data.decode()
        except UnicodeDecodeError as error:
            position += 1
            yield BadLine(identity, f"{source.name}:{line.number}", position, _why(error), line.end)
            continue
        first, end = (first if texts else line.number), line.end
        texts.append(text)
        size += len(line.data)
        if size >= LONGEST_TEXT_BYTES or (size >= MAX_TEXT_BYTES and not text.strip()):
            position += 1
            yield Document(identity, f"{source.name}:{first}", position, "".join(texts), line.end)
            texts, size = [], 0
    if "".join(texts).strip():
        yield Document(identity, f"{source.name}:{first}", position + 1, "".join(texts), end)


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error.reason} at byte {error.start + 1}"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error}"
    return " ".join(str(error).split()) or type(error).__name__


def _errors_of(source: Source) -> tuple[type[Exception], ...]:
    """What reading raises for a file that is broken, the library behind it included."""
    errors: list[type[Exception]] = [OSError, EOFError, ValueError, zlib.error]
    if source.compression == "zst":
        errors.append(required("zstandard", ".zst files").ZstdError)
    if source.kind == "parquet":
        errors.append(required("pyarrow", ".parquet files").ArrowException)
    return tuple(errors)
