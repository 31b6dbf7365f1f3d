"""Compiles hot loops to machine code, once a machine: Numba caches the result beside the source.

The cache notices changes in a function's own file only, so compiled functions call none of another file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function of numbers and arrays; it releases the GIL while it runs."""
    return cast(Callable[Parameters, Result], numba.njit(cache=True, nogil=True)(function))
