"""How many entries of the logs are read at once: as many as came to a bounded number of bytes lately."""

from __future__ import annotations

from typing import Final

MAX_BYTES: Final = 1 << 20  # of one read, about; half a second of learning, which others wait for
MAX_ENTRIES: Final = 1 << 16
MAX_ENTRIES_OF_LOG: Final = 64
FIRST_ENTRIES: Final = 16  # one entry may have a mebibyte


class ReadQuota:
    """Starts low, doubles while reads bring few bytes, and shrinks at once where they bring many."""

    def __init__(self) -> None:
        self._num_entries = FIRST_ENTRIES

    @property
    def num_logs(self) -> int:
        """Logs that may be read at once."""
        return self._num_entries

    def entries_of_each(self, num_logs: int) -> int:
        """Most entries of each of so many logs."""
        return max(1, min(MAX_ENTRIES_OF_LOG, self._num_entries // max(1, num_logs)))

    def note(self, num_entries: int, num_bytes: int) -> None:
        """Take note of what a read has brought."""
        fitting = MAX_BYTES * num_entries // num_bytes if num_bytes else MAX_ENTRIES
        self._num_entries = max(1, min(fitting, 2 * self._num_entries, MAX_ENTRIES))

    def note_failure(self) -> None:
        """Take note of a read that failed, perhaps because it would have brought too much."""
        self._num_entries = max(1, self._num_entries // 4)
