"""Becomes another program that ends with its parent and that is alone in its data folder.

Run as a script: ``die_with_parent.py PARENT_PID LOCK_FILE PROGRAM ARGUMENT...``. The lock is held by an open
file that the program inherits, so it lasts exactly as long as the program. Standard library only.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
LOCK_WAIT_S = 3  # a predecessor whose parent was killed is still writing its last bytes
EXIT_LOCKED = 75


def die_with(parent_pid: int) -> None:
    """Receive SIGTERM when the parent ends, however it ends. Linux only; elsewhere it does nothing."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        sys.exit(0)


def lock(path: str) -> None:
    """Hold the lock on ``path`` until the process ends; exit with EXIT_LOCKED when another one keeps it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(descriptor, True)
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(EXIT_LOCKED))
    signal.alarm(LOCK_WAIT_S)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    signal.alarm(0)


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    lock(sys.argv[2])
    os.execv(sys.argv[3], sys.argv[3:])
