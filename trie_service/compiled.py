"""How the index's inner loops are compiled: by Numba, without the interpreter lock, cached on disk.

Each function is compiled into its callers, and does not count references to the arrays that it is given:
calls with all arrays of a trie, and the counting, took a third of the time of learning and drafting.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import numba

from trie_service.code_cache import folder_for

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile ``function``, which makes no arrays, at its first call, or load it from the cache."""
    return _compiled(function, makes_arrays=False)


def compiled_with_arrays(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile ``function``, which may make arrays, but not return them."""
    return _compiled(function, makes_arrays=True)


def _compiled(function: Callable[Parameters, Result], *, makes_arrays: bool) -> Callable[Parameters, Result]:
    folder = folder_for(Path(inspect.getfile(function)))
    options = {"nogil": True, "forceinline": True, "_nrt": makes_arrays, "cache": folder is not None}
    with _cached_in(folder):
        machine_code = numba.njit(**options)(function)
    return cast(Callable[Parameters, Result], machine_code)


@contextmanager
def _cached_in(folder: Path | None) -> Iterator[None]:
    """Let Numba keep the code of functions that are decorated within in a folder."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder or "")
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before
