"""The system of record as the index sees it: a registry of namespaces and a log for each.

Everything that is learned goes through a log, and every replica learns by reading the logs, its own
entries included. Two stores follow this protocol, and one contract suite runs on both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trie_service.namespace import NamespaceRecord
from trie_service.sequence import TokenSequence

START = "0-0"


@dataclass(frozen=True, slots=True)
class Registry:
    """All namespaces, and the identity of the store: one that was emptied has another."""

    store_id: str
    changes: str  # position in the announcements of changed namespaces, for ``Cursors.changes``
    records: tuple[NamespaceRecord, ...]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One learned sequence in a namespace's log."""

    position: str  # orders the log; reading goes on after it
    number: int  # 1 for the first entry ever appended to the log
    sequence: TokenSequence | None  # None: what is stored makes no sense


@dataclass(frozen=True, slots=True)
class Cursors:
    """How far a reader has come."""

    changes: str
    logs: Mapping[NamespaceRecord, str]


@dataclass(frozen=True, slots=True)
class Batch:
    """What a read found after the cursors."""

    changed: bool  # namespaces were created or deleted: the registry should be read again
    logs: Mapping[NamespaceRecord, Sequence[LogEntry]]


class Store(Protocol):
    """Every method raises StoreUnavailableError when the store is out of reach."""

    @property
    def description(self) -> str:
        """Where the store is, without credentials."""

    async def connect(self) -> None:
        """Check that the store answers."""

    async def close(self) -> None:
        """Release connections."""

    async def identity(self) -> str:
        """The store's identity, drawn when a store is first asked."""

    async def registry(self) -> Registry:
        """All namespaces, in no particular order."""

    async def find(self, name: str) -> NamespaceRecord | None:
        """One namespace."""

    async def create(self, record: NamespaceRecord) -> NamespaceRecord:
        """Create a namespace unless one of that name exists; return the one that exists now."""

    async def delete(self, record: NamespaceRecord) -> bool:
        """Delete a namespace and its log; False where that incarnation is gone already."""

    async def append(self, record: NamespaceRecord, sequences: Sequence[TokenSequence]) -> None:
        """Append to a namespace's log, all or nothing.

        Raises NamespaceNotFoundError where that incarnation is gone.
        """

    async def read(self, cursors: Cursors, wait_s: float) -> Batch:
        """Entries after the cursors, a bounded number; wait up to ``wait_s`` for the first."""

    async def heads(self, records: Sequence[NamespaceRecord]) -> list[int]:
        """Number of the newest entry of each log, 0 for an empty one."""
