"""Compiles hot loops to machine code, once a machine: Numba caches the result beside the source.

The cache notices changes in a function's own file only. So compiled functions call none of another file, but for
attention's: cached code of theirs that is older than any of their files is dropped at import.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import numba

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function of numbers and arrays; it releases the GIL while it runs.

    Division by zero gives an infinity or NaN, as in NumPy, instead of ending the function: one row without a
    finite score must not keep the others from being computed.
    """
    compile_it = numba.njit(cache=True, nogil=True, error_model="numpy")
    return cast(Callable[Parameters, Result], compile_it(function))


_ATTENTION = ("compiled.py", "machine.py", "attention_kernel.py", "attention_job.py")


def _drop_stale_cache(package: Path) -> None:
    newest = max(source.stat().st_mtime for name in _ATTENTION if (source := package / name).exists())
    folder = Path(numba.config.CACHE_DIR) if numba.config.CACHE_DIR else package / "__pycache__"
    for cached in folder.rglob("attention_*.nbi"):
        with suppress(OSError):
            if cached.stat().st_mtime < newest:
                cached.unlink()


_drop_stale_cache(Path(__file__).parent)
