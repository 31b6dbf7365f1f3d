"""The system of record as the index sees it: a registry of namespaces, and a log and a snapshot for each.

Everything that is learned goes through a log, and every replica learns by reading the logs, its own
entries included. A snapshot holds what the log held up to a position, so that the log can be trimmed
behind it. Two stores follow this protocol, and one contract suite runs on both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trie_service.namespace import NamespaceRecord
from trie_service.sequence import Forgotten, TokenSequence
from trie_service.snapshot import Snapshot

START = "0-0"
MAX_RECENT_IDS = 8192  # sequence ids of a namespace that are not appended again


@dataclass(frozen=True, slots=True)
class Registry:
    """All namespaces, and the identity of the store: one that was emptied has another."""

    store_id: str
    changes: str  # position in the announcements of changed namespaces, for ``Cursors.changes``
    records: tuple[NamespaceRecord, ...]
    unknown: frozenset[str] = frozenset()  # names of namespaces that are kept where nobody answers


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a namespace's log: a learned sequence, or the name of one that is taken back."""

    position: str  # orders the log; reading goes on after it
    number: int  # 1 for the first entry ever appended to the log, without gaps; 0: unknown
    sequence: TokenSequence | None = None
    forgotten: str | None = None  # a sequence id

    @property
    def is_readable(self) -> bool:
        """Whether what is stored makes sense."""
        return self.sequence is not None or self.forgotten is not None

    @property
    def appended_ms(self) -> int:
        """When it was appended, by the store's clock, in milliseconds since 1970."""
        return int(self.position.partition("-")[0])

    def is_after(self, position: str) -> bool:
        """Whether it stands behind a position of the log."""
        return _order_of(self.position) > _order_of(position)


@dataclass(frozen=True, slots=True)
class Cursors:
    """How far a reader has come."""

    changes: str
    logs: Mapping[NamespaceRecord, str]


@dataclass(frozen=True, slots=True)
class Batch:
    """What a read found after the cursors."""

    changed: bool  # namespaces were created, changed or deleted: the registry should be read again
    logs: Mapping[NamespaceRecord, Sequence[LogEntry]]


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store holds of one namespace. All zero for one that is gone, or out of reach."""

    head: int = 0  # number of the log's newest entry
    log_bytes: int = 0  # of the tokens in the log
    snapshot_bytes: int = 0
    snapshot_number: int = 0  # entries of the log that the snapshot holds
    snapshot_position: str = START  # of the newest of them
    snapshot_ms: int = 0  # when it was written, by the store's clock, since 1970; 0: there is none
    now_ms: int = 0  # the store's clock; 0: the namespace is gone
    is_snapshot_rejected: bool = False  # it was found corrupt, and no other was written yet
    is_out_of_reach: bool = False  # it is kept where nobody answers: nothing is known

    def has_lost(self, number: int) -> bool:
        """Whether the log ends before an entry that was once read from it: the newest writes were lost."""
        return not (self.is_gone or self.is_out_of_reach) and self.head < number

    @property
    def is_gone(self) -> bool:
        """Whether there is no such incarnation."""
        return self.now_ms == 0 and not self.is_out_of_reach


class Store(Protocol):
    """Every method raises StoreUnavailableError when the store is out of reach, StoreFullError when it has no room.

    A store of several nodes raises NodeUnavailableError for what is kept on one that does not answer. Methods that
    deal with many namespaces do not: they answer for the others.
    """

    @property
    def description(self) -> str:
        """Where the store is, without credentials."""

    def place_of(self, record: NamespaceRecord) -> str:
        """The part of the store that keeps a namespace, for people; one that was called for lately."""

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

    async def create(self, record: NamespaceRecord, snapshot: Snapshot | None = None) -> NamespaceRecord:
        """Create a namespace unless one of that name exists; return the one that exists now.

        ``snapshot`` gives it first contents; its log is empty all the same, so the snapshot is kept as of START.
        """

    async def update(self, record: NamespaceRecord) -> None:
        """Store a namespace's limits; raise NamespaceNotFoundError where that incarnation is gone."""

    async def delete(self, record: NamespaceRecord) -> bool:
        """Delete a namespace, its log and its snapshot; False where that incarnation is gone already."""

    async def was_deleted(self, record: NamespaceRecord) -> bool:
        """Whether that incarnation was deleted lately. One that is gone and was not deleted was lost."""

    async def append(self, record: NamespaceRecord, items: Sequence[TokenSequence | Forgotten]) -> int:
        """Append to a namespace's log, all or nothing; return the tokens appended, context not counted.

        A sequence whose id is among the newest MAX_RECENT_IDS of the log, and was not forgotten since, is not
        appended again: a call whose answer was lost may be repeated. Raises NamespaceNotFoundError where that
        incarnation is gone.
        """

    async def read(self, cursors: Cursors, wait_s: float) -> Batch:
        """Entries after the cursors, a bounded number; wait up to ``wait_s`` for the first."""

    async def stored(self, records: Sequence[NamespaceRecord]) -> list[Stored]:
        """What the store holds of each namespace."""

    async def acquire_lease(self, record: NamespaceRecord, owner: str, ttl_s: float) -> int | None:
        """Take or renew the lease to write a namespace's snapshot; None while another owner has it.

        The token grows with each grant; a renewal keeps it. Raises NamespaceNotFoundError where that
        incarnation is gone.
        """

    async def release_lease(self, record: NamespaceRecord, owner: str) -> None:
        """Give the lease back, where this owner has it."""

    async def write_snapshot(
        self, record: NamespaceRecord, snapshot: Snapshot, token: int, new_lineage: str = ""
    ) -> int:
        """Put a snapshot in the place of the old one, all at once; return its bytes in the store.

        ``new_lineage``, unless it is empty, becomes the namespace's. Raises LeaseLostError, and leaves the old
        snapshot, for a token older than the newest grant, for a lineage that is not the namespace's any more
        and, under the same lineage, for a snapshot older than the one that is there; NamespaceNotFoundError
        where that incarnation is gone.
        """

    async def read_snapshot(self, record: NamespaceRecord) -> Snapshot | None:
        """The newest snapshot. Raises UnsupportedFormatError for one in a format that cannot be read, and
        SnapshotCorruptError for one that is damaged or was rejected.
        """

    async def reject_snapshot(self, record: NamespaceRecord) -> None:
        """Put a damaged snapshot aside, so that a replica that has the text in memory writes another."""

    async def trim(self, record: NamespaceRecord, token: int, keep_s: float) -> int:
        """Drop entries that the snapshot holds and that are older than ``keep_s``; return how many.

        Raises LeaseLostError for a token older than the newest grant.
        """


def _order_of(position: str) -> tuple[int, int]:
    milliseconds, _, number = position.partition("-")
    return int(milliseconds), int(number)
