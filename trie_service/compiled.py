"""How the index's inner loops are compiled: by Numba, without the interpreter lock, cached on disk.

Numba notices that a function's own file has changed, but not the files of the functions that it
calls. So cached code that is older than any file of compiled code is dropped at import.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

import numba

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_SOURCES = (
    "trie_arrays.py",
    "children.py",
    "ngrams.py",
    "trie_image.py",
    "matching.py",
    "draft_prior.py",
    "drafting.py",
)


def compiled(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Compile ``function`` at its first call, or load it from the cache."""
    machine_code: Callable[_Arguments, _Result] = numba.njit(nogil=True, cache=True)(function)
    return machine_code


def _drop_stale_cache(package: Path) -> None:
    newest_source = max(source.stat().st_mtime for name in _SOURCES if (source := package / name).exists())
    for index in (package / "__pycache__").glob("*.nbi"):
        with suppress(OSError):
            if index.stat().st_mtime < newest_source:
                index.unlink()


_drop_stale_cache(Path(__file__).parent)
