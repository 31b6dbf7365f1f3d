"""What the command line names: files, globs, folders, standard input."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trie_service.admin.errors import UsageError

STANDARD_INPUT = "-"
KINDS = ("txt", "jsonl", "parquet", "npy")
COMPRESSIONS = ("gz", "zst")
COMPRESSIBLE = ("txt", "jsonl")


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read, or standard input."""

    name: str  # as it is shown
    path: Path | None  # None: standard input
    kind: str  # one of KINDS; empty: what the first byte says
    compression: str  # one of COMPRESSIONS, or empty
    num_bytes: int  # 0: unknown
    modified_ns: int  # 0: unknown

    @property
    def identity(self) -> str:
        """Names the source in sequence ids and bookmarks: the full path."""
        return STANDARD_INPUT if self.path is None else str(self.path.resolve())


def find_sources(arguments: Iterable[str], kind: str = "") -> list[Source]:
    """The sources that arguments name, each once, in their order and within a folder or glob by name.

    ``kind`` is that of every source, whatever its name says. Raises UsageError for an argument that
    names nothing that can be read.
    """
    found: dict[str, Source] = {}
    for argument in arguments:
        for source in _sources_of(argument, kind):
            found.setdefault(source.identity, source)
    return list(found.values())


def _sources_of(argument: str, kind: str) -> Iterator[Source]:
    if argument == STANDARD_INPUT:
        yield Source("standard input", None, kind, "", 0, 0)
        return
    path = Path(argument)
    if path.is_dir():
        yield from _in_folder(path, kind)
    elif path.exists():
        yield _source_at(path, kind)
    else:
        yield from _of_glob(argument, kind)


def _in_folder(folder: Path, kind: str) -> Iterator[Source]:
    """Every file below that can be read, by name; others are passed over."""
    files = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
    readable = sorted(path for path in files if _is_shown(path, folder) and (kind or _kind_of(path)[0]))
    if not readable:
        raise UsageError(f"{folder}: no file there is of a kind that can be read ({_kinds()})")
    yield from (_source_at(path, kind) for path in readable)


def _of_glob(pattern: str, kind: str) -> Iterator[Source]:
    matches = sorted(Path(match) for match in glob.glob(pattern, recursive=True))
    if not matches:
        raise UsageError(f"{pattern}: no such file")
    for path in matches:
        yield from _in_folder(path, kind) if path.is_dir() else [_source_at(path, kind)]


def _source_at(path: Path, kind: str) -> Source:
    named, compression = _kind_of(path)
    if not (kind or named):
        raise UsageError(f"{path}: a file is one of {_kinds()}; --format says what another name holds")
    status = path.stat()
    size = status.st_size if stat.S_ISREG(status.st_mode) else 0
    shown = str(path).encode(errors="backslashreplace").decode()  # a name need not be UTF-8
    return Source(shown, path, kind or named, compression, size, status.st_mtime_ns)


def _is_shown(path: Path, folder: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(folder).parts)


def _kind_of(path: Path) -> tuple[str, str]:
    """Kind and compression by the name, each empty where the name does not say."""
    *_, before, last = ["", "", *path.name.lower().split(".")]
    if last in COMPRESSIONS:
        return (before if before in COMPRESSIBLE else ""), last
    return (last if last in KINDS else ""), ""


def _kinds() -> str:
    compressed = [f".{kind}.{compression}" for kind in COMPRESSIBLE for compression in COMPRESSIONS]
    return ", ".join([*(f".{kind}" for kind in KINDS), *compressed])
