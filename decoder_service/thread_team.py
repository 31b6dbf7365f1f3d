"""Runs compiled work on the OpenMP threads that torch already has, and keeps those threads few.

A second thread pool beside torch's would fight it for the cores: idle OpenMP threads spin. OpenMP makes a team of
threads for each thread that computes, and once there are more of them than cores it has them sleep between two
operations: measured here, a step through the service then took 1.4 times as long.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

_Entry = Callable[[int, int, int, int], None]
_Result = TypeVar("_Result")


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


async def on_passing_thread(function: Callable[[], _Result]) -> _Result:
    """Compute on a thread that ends afterwards, and its team of threads with it."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        return await asyncio.get_running_loop().run_in_executor(executor, function)
