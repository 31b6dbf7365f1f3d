"""``draftwell up`` as a process of its own, over scripts that announce a fake pair."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_pair import FakePair, fake_pair

SERVICE = """
import os, signal, sys
name, address = sys.argv[1:]
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
print(name, "has pid", os.getpid(), file=sys.stderr, flush=True)
print(name, "listening on", address, flush=True)
while True:
    signal.pause()
"""
UP = """
import sys
from decoder_service.commands import main, pair
from decoder_service.commands.processes import Launch
address = sys.argv.pop()
pair._trie_launch = lambda options: Launch("trie-service", "service", ("trie-service", address))
pair._decoder_launch = lambda options, trie: Launch("decoder-service", "service", ("decoder-service", trie))
main.main()
"""


@pytest.fixture
def pair() -> Iterator[FakePair]:
    with fake_pair() as running:
        yield running


@pytest.fixture
def up(pair: FakePair, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "service.py").write_text(SERVICE)
    process = subprocess.Popen(
        [sys.executable, "-c", UP, "up", pair.address],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def announcement(up: subprocess.Popen[str]) -> str:
    """What it prints once all serve."""
    assert up.stdout is not None
    lines = []
    while not lines or "Ctrl-C" not in lines[-1]:
        lines.append(up.stdout.readline())
        assert lines[-1], "it ended early"
    return "".join(lines)


def pids(log: str) -> dict[str, int]:
    return {name: int(pid) for name, pid in re.findall(r"(\S+) has pid (\d+)", log)}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_prints_store_addresses_and_model_and_stops_all_at_ctrl_c(
    up: subprocess.Popen[str], pair: FakePair
) -> None:
    said = announcement(up)
    assert "a dict" in said
    assert f"trie-service    {pair.address}" in said
    assert f"decoder-service {pair.address}  bytes, float32 on cpu" in said
    up.send_signal(signal.SIGINT)
    _, log = up.communicate(timeout=20)
    assert up.returncode == 0
    assert len(pids(log)) == 2
    assert not any(is_alive(pid) for pid in pids(log).values())


def test_it_stops_the_others_and_shows_the_log_when_one_dies(up: subprocess.Popen[str]) -> None:
    announcement(up)
    assert up.stderr is not None
    log = ""
    while len(pids(log)) < 2:
        log += up.stderr.readline()
    os.kill(pids(log)["trie-service"], signal.SIGKILL)
    _, rest = up.communicate(timeout=20)
    assert up.returncode == 1
    assert "error: trie-service ended with signal SIGKILL\ntrie-service has pid" in rest
    assert not is_alive(pids(log)["decoder-service"])
