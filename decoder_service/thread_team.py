"""Runs compiled work on the OpenMP threads that torch already has.

A second thread pool beside torch's would fight it for the cores: idle OpenMP threads spin.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import torch

_Entry = Callable[[int, int, int, int], None]


def _find_gomp_parallel() -> _Entry | None:
    """``GOMP_parallel(function, data, threads, flags)`` of the library that torch uses, if it has one."""
    for library in sorted((Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*")):
        try:
            entry = ctypes.CDLL(str(library)).GOMP_parallel
        except (OSError, AttributeError):
            continue
        entry.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        entry.restype = None
        return entry
    return None


_GOMP_PARALLEL = _find_gomp_parallel()


def run_on_team(function_address: int, data_address: int) -> None:
    """Call the C function ``void f(void *)`` once on each of torch's threads and wait for all.

    Where torch was built without OpenMP it is called once, on this thread: the function shares its work out
    itself, so that one call does all of it.
    """
    if _GOMP_PARALLEL is None:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function_address)(data_address)
        return
    _GOMP_PARALLEL(function_address, data_address, torch.get_num_threads(), 0)
