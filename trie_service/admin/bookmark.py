"""How far a warm has come, kept in a file: what was acknowledged is not sent again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trie_service.admin.corpus import Source
from trie_service.admin.errors import AdminError

FORMAT = 1
SAVE_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Mark:
    """How far one source was acknowledged; it counts as long as the file stays as it was."""

    num_bytes: int
    modified_ns: int
    position: int | None  # of the newest document; None: all of it


class Bookmark:
    """Marks of one namespace's sources."""

    def __init__(self, path: Path, namespace: str) -> None:
        self._path = path
        self._namespace = namespace
        self._marks: dict[str, Mark] = _load(path, namespace)
        self._sources: dict[str, Source] = {}
        self._saved_at = time.monotonic()

    def position(self, source: Source) -> int | None:
        """The newest document that need not be sent again: 0 for none, None for all of the source.

        What comes by standard input after all of it was learned is another corpus.
        """
        self._sources[source.identity] = source
        mark = self._marks.get(source.identity)
        is_same = mark and (mark.num_bytes, mark.modified_ns) == (source.num_bytes, source.modified_ns)
        if not mark or not is_same or (source.path is None and mark.position is None):
            return 0
        return mark.position

    def advance(self, positions: Mapping[str, int | None]) -> None:
        """Take note of what was acknowledged; the file follows within a second."""
        for identity, position in positions.items():
            source = self._sources[identity]
            self._marks[identity] = Mark(source.num_bytes, source.modified_ns, position)
        if time.monotonic() - self._saved_at >= SAVE_EVERY_S:
            self.save()

    def save(self) -> None:
        """Write the file, whole or not at all; raise AdminError where that fails."""
        marks = {identity: asdict(mark) for identity, mark in self._marks.items()}
        text = json.dumps({"format": FORMAT, "namespace": self._namespace, "sources": marks}, indent=1)
        partial = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            partial.write_text(text)
            partial.replace(self._path)
        except OSError as error:
            raise AdminError(f"{self._path}: the place cannot be kept there: {error}") from error
        self._saved_at = time.monotonic()


def _load(path: Path, namespace: str) -> dict[str, Mark]:
    if not path.exists():
        return {}
    try:
        held: dict[str, Any] = json.loads(path.read_text())
        if held["format"] != FORMAT:
            raise AdminError(f"{path}: its format is {held['format']}, not {FORMAT}")
        kept_for = held["namespace"]
        marks = {identity: Mark(**mark) for identity, mark in held["sources"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise AdminError(f"{path}: not a file that --resume has written: {error}") from error
    if kept_for != namespace:
        raise AdminError(f"{path}: it is about namespace {kept_for!r}, not {namespace!r}")
    return marks
