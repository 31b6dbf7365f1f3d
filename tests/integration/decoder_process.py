"""Both services as real processes on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 60.0


class ServiceProcess:
    """One service: what it said, where it listens, how it ended. It dies with the process that started it."""

    def __init__(self, module: str, *arguments: str, **settings: object) -> None:
        """Run ``python -m module``; ``settings`` go into its environment."""
        self.lines: list[str] = []  # of stdout and stderr
        self._address = ""
        self._settled = threading.Event()  # listens, or has ended
        prefix = {"trie_service": "DRAFTWELL_TRIE_", "decoder_service": "DRAFTWELL_DECODER_"}[module]
        leash = [sys.executable, "-m", "decoder_service.commands.leash", str(os.getpid())]
        self._process = subprocess.Popen(
            [*leash, module, *arguments],
            cwd=ROOT,
            env=os.environ | {prefix + name.upper(): str(value) for name, value in settings.items()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def address(self) -> str:
        """HOST:PORT, once it listens; fails with what the service said where it ended instead."""
        assert self._settled.wait(START_TIMEOUT_S), f"not listening after {START_TIMEOUT_S} s: {self.said}"
        assert self._address, f"ended with status {self.wait()}: {self.said}"
        return self._address

    @property
    def said(self) -> str:
        """Everything on stdout and stderr."""
        return "\n".join(self.lines)

    def wait(self) -> int:
        """The exit status; minus the number of the signal that killed it."""
        status = self._process.wait(END_TIMEOUT_S)
        self._reader.join(END_TIMEOUT_S)
        return status

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it like ``kill -9``."""
        self._process.kill()
        self.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())
            _, found, address = line.partition("-service listening on ")
            if found:
                self._address = address.strip()
                self._settled.set()
        self._settled.set()


def start_trie(*, listen: str = "127.0.0.1:0", redis: str = "embedded:") -> ServiceProcess:
    """Start a trie service."""
    return ServiceProcess("trie_service", "--listen", listen, "--redis", redis)


def start_decoder(
    model: Path | None, *, listen: str = "127.0.0.1:0", trie: str = "", **settings: object
) -> ServiceProcess:
    """Start a decoder of a model folder, else of the embedded model, on one CPU thread.

    ``settings`` are those of its configuration.
    """
    settings |= {"listen": listen, "trie": trie, "threads": 1}
    if model is not None:
        settings["model"] = model
    return ServiceProcess("decoder_service", **settings)


@contextmanager
def ended_after(*services: ServiceProcess) -> Iterator[None]:
    """Kill what still runs of the services on the way out."""
    try:
        yield
    finally:
        for service in services:
            service.kill()


def free_port() -> int:
    """A port of loopback on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
