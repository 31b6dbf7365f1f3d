"""When a namespace's snapshot is written anew."""

from __future__ import annotations

from dataclasses import dataclass

from trie_service.store import Stored

IDLE_INTERVALS = 10  # after so many, anything new is enough


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """A start replays the log behind the snapshot, so a long log makes for a slow start."""

    interval_s: float = 60.0  # between two snapshots of a namespace, at least
    log_bytes: int = 8 << 20  # of tokens: so long a log is worth a snapshot
    keep_s: float = 60.0  # entries younger than that stay in the log: slow readers need no snapshot
    lease_s: float = 10.0  # a writer that was killed holds others up for so long
    grace_s: float = 30.0  # how long a replica that lost text waits for one that has it all

    def is_due(self, stored: Stored, *, since_ms: int, is_partial: bool) -> bool:
        """Whether to write one now.

        ``since_ms``: when the need was first seen; a partial memory is one that lost text with a damaged snapshot.
        """
        waited_s = (stored.now_ms - since_ms) / 1000
        if stored.is_snapshot_rejected or is_partial:
            return not is_partial or waited_s >= self.grace_s
        age_s = (stored.now_ms - (stored.snapshot_ms or since_ms)) / 1000
        if stored.head <= stored.snapshot_number or age_s < self.interval_s:
            return False
        return stored.log_bytes >= self.log_bytes or age_s >= IDLE_INTERVALS * self.interval_s
