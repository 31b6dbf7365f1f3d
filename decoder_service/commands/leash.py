"""Becomes a service's process that cannot outlive its parent.

``python -m decoder_service.commands.leash PARENT_PID MODULE ARGUMENT...`` asks Linux to terminate it
when its parent dies, even by SIGKILL, and then executes ``python -m MODULE ARGUMENT...`` in its place.
Elsewhere it only executes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h; survives execve


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel send SIGTERM when the parent dies; exit at once if it is dead already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:
        sys.exit(f"parent {parent_pid} is gone")


def main() -> None:
    """Leash this process and become the module."""
    parent_pid, *module_and_arguments = sys.argv[1:]
    if sys.platform == "linux":
        die_with_parent(int(parent_pid))
    os.execv(sys.executable, [sys.executable, "-m", *module_and_arguments])


if __name__ == "__main__":
    main()
