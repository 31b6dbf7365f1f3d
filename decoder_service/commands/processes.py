"""Services as child processes: started, waited for until they listen, stopped together."""

from __future__ import annotations

import io
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

_TAIL_LINES = 25
_POLL_S = 0.1
_SIGNAL_CHECK_S = 0.5
_GRACE_S = 15.0
_LAST_LINES_S = 1.0  # a child of the service may hold its log open

OnLog = Callable[[str, str], None]
"""Takes a service's name and a line of its log."""


class ServiceFailed(Exception):
    """A service ended that should have gone on."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a service."""

    name: str  # as it says itself: "NAME listening on HOST:PORT"
    module: str  # run as ``python -m``
    arguments: tuple[str, ...]


class Service:
    """One running service. Start it from the main thread: on Linux it dies with the thread that did."""

    def __init__(self, launch: Launch, on_log: OnLog, exits: queue.SimpleQueue[Service]) -> None:
        self.name = launch.name
        self.address: str | None = None
        self.last_line = ""  # newest of the log
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._settled = threading.Event()  # listens, or has ended
        self._on_log = on_log
        self._exits = exits
        self._process = _spawn(launch)
        self._log_reader = _in_background(self._read_log)
        _in_background(self._read_announcement)
        _in_background(self._await_exit)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def wait_until_listening(self, on_wait: Callable[[str], None]) -> str:
        """Return the address; call ``on_wait`` with the newest log line meanwhile.

        Raises ServiceFailed, with the tail of the log, if the service ends instead.
        """
        while not self._settled.wait(_POLL_S):
            on_wait(self.last_line)
        if self.address is None:
            raise self.failure()
        return self.address

    def failure(self) -> ServiceFailed:
        """What to say of a service that ended."""
        code = self._process.wait()
        self._log_reader.join(_LAST_LINES_S)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return ServiceFailed("\n".join([f"{self.name} ended with {how}", *self._tail]))

    def stop(self) -> None:
        """End it gracefully, by force after a while."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read_announcement(self) -> None:
        for line in _lines(self._process.stdout):
            self.address = self.address or _address(line.rstrip(), self.name)
            if self.address is not None:
                self._settled.set()

    def _await_exit(self) -> None:
        self._process.wait()
        self._settled.set()
        self._exits.put(self)

    def _read_log(self) -> None:
        for line in _lines(self._process.stderr):
            said = line.rstrip()
            if not said:
                continue
            self.last_line = said
            if not line.endswith("\r"):  # else a progress bar that goes on
                self._tail.append(said)
                self._on_log(self.name, said)


def _in_background(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _spawn(launch: Launch) -> subprocess.Popen[bytes]:
    leash = [sys.executable, "-m", "decoder_service.commands.leash", str(os.getpid())]
    return subprocess.Popen(
        [*leash, launch.module, *launch.arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C reaches the parent alone, which stops all in order
    )


def _lines(pipe: IO[bytes] | None) -> Iterator[str]:
    """Lines with their ends, which may be a mere carriage return."""
    assert pipe is not None
    return iter(io.TextIOWrapper(pipe, encoding="utf-8", errors="replace", newline=""))


def _address(line: str, name: str) -> str | None:
    announcement = f"{name} listening on "
    return line.removeprefix(announcement).strip() if line.startswith(announcement) else None


class Services:
    """The services of one command, in the order of their start."""

    def __init__(self, on_log: OnLog) -> None:
        self._on_log = on_log
        self._running: list[Service] = []
        self._exits: queue.SimpleQueue[Service] = queue.SimpleQueue()

    def start(self, launch: Launch, on_wait: Callable[[str], None]) -> str:
        """Start one, wait until it listens and return its address; raise ServiceFailed."""
        service = Service(launch, self._on_log, self._exits)
        self._running.append(service)
        return service.wait_until_listening(on_wait)

    def wait_for_failure(self) -> ServiceFailed:
        """Block until any service ends, and say how."""
        while True:
            try:
                return self._exits.get(timeout=_SIGNAL_CHECK_S).failure()
            except queue.Empty:  # a signal just before a wait for ever would wait as long
                continue

    def stop(self) -> None:
        """Stop all, the newest first, so that none loses the one that it depends on."""
        while self._running:
            self._running[-1].stop()
            self._running.pop()


@contextmanager
def running_services(on_log: OnLog) -> Iterator[Services]:
    """Services that are stopped on the way out.

    SIGTERM and SIGINT, even where a background job was started without it, raise KeyboardInterrupt
    inside. Call from the main thread.
    """
    services = Services(on_log)
    previous = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield services
    finally:
        services.stop()
        for number, handler in previous.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
