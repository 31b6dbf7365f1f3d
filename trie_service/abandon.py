"""Work that nothing can interrupt, such as a compilation, and that a stop does not wait for."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

_THREAD_NAME = "abandonable"


async def abandonable(work: Callable[[], None]) -> None:
    """Do ``work`` in a thread; cancelling this leaves the thread to itself."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        failure: BaseException | None = None
        try:
            work()
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the loop has closed in the meantime
            loop.call_soon_threadsafe(settle, failure)

    threading.Thread(target=run, name=_THREAD_NAME, daemon=True).start()
    await done


def leave_abandoned() -> None:
    """End the process with status 0 if such work still runs.

    The interpreter's own end could wait for a lock that the thread holds for as long as it compiles.
    """
    if any(thread.name == _THREAD_NAME for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
