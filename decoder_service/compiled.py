"""How hot loops are compiled to machine code: by Numba, once a machine, cached on disk."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import numba

from decoder_service.code_cache import folder_for

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function of numbers and arrays at its first call; it releases the GIL while it runs.

    Division by zero gives an infinity or NaN, as in NumPy, instead of ending the function: one row without a
    finite score must not keep the others from being computed.
    """
    folder = folder_for(Path(inspect.getfile(function)))
    compile_it = numba.njit(cache=folder is not None, nogil=True, error_model="numpy")
    with _cached_in(folder):
        return cast(Callable[Parameters, Result], compile_it(function))


@contextmanager
def _cached_in(folder: Path | None) -> Iterator[None]:
    """Let Numba keep the code of functions that are decorated within in a folder."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder or "")
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before
