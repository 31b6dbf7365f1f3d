"""Has the machine code of drafting compiled, by a second process beside one that compiles the rest.

Compiling takes most of a first start, and Numba compiles one function at a time. Run as
``python -m trie_service.compile_drafts PARENT_PID``: it compiles into the cache and ends with its parent.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os import cpu_count, getpid
from pathlib import Path

import numpy as np

from trie_service import drafting
from trie_service.code_cache import folder_for
from trie_service.die_with_parent import die_with
from trie_service.drafting import DraftLimits, draft_batch
from trie_service.trie import Trie
from trie_service.trie_arrays import MIN_BYTES


@contextmanager
def drafts_compiled_beside() -> Iterator[None]:
    """What is done within goes on beside the compilation, which has ended when this is left.

    Nothing is done where the code is in the cache, or can't be kept there, or where there is one processor. Where the
    second process fails, whoever drafts first compiles.
    """
    folder = folder_for(Path(drafting.__file__))
    if folder is None or any(folder.rglob("*.nbi")) or (cpu_count() or 1) < 2:
        yield
        return
    command = [sys.executable, "-m", "trie_service.compile_drafts", str(getpid())]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.wait()


def compile_drafts() -> None:
    """Draft from an empty trie."""
    draft_batch(
        Trie(max_order=4, max_bytes=MIN_BYTES), [np.arange(2, dtype=np.int32)], [DraftLimits(max_nodes=4)]
    )


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    compile_drafts()
