"""How the index's inner loops are compiled: by Numba, without the interpreter lock, cached on disk."""

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
    """Compile ``function`` at its first call, or load it from the cache."""
    folder = folder_for(Path(inspect.getfile(function)))
    with _cached_in(folder):
        machine_code = numba.njit(nogil=True, cache=folder is not None)(function)
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
