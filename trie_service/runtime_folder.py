"""A temporary folder that outlives its process only until another one of the same user makes such a folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "draftwell-"  # short: a socket's path has 107 bytes at most
_OWNED = "owned"  # locked by the process that owns the folder, for as long as it lives


class RuntimeFolder:
    """A private folder. Making one removes those whose processes were killed before they could."""

    def __init__(self) -> None:
        remove_abandoned(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        new = self.path / f"{_OWNED}.new"
        self._lock: int | None = os.open(new, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        new.rename(self.path / _OWNED)  # whoever sees it sees it locked

    def remove(self) -> None:
        """Delete it with what is in it; once more does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_abandoned(parent: Path) -> None:
    """Delete this user's runtime folders that no living process owns."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another process was quicker, or holds the lock
            if _is_own_folder(folder):
                _remove_unlocked(folder)


def _is_own_folder(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _remove_unlocked(folder: Path) -> None:
    lock = os.open(folder / _OWNED, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)
