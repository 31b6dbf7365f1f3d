"""Services as processes, with small scripts in the place of real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from decoder_service.commands.pair import PairOptions, start_pair
from decoder_service.commands.processes import Launch, ServiceFailed, Services, running_services

SERVE = """
import signal, sys
def stop(number, frame):
    print("stopped", file=sys.stderr, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("loading", *sys.argv[1:], file=sys.stderr, flush=True)
print("{name} listening on 127.0.0.1:7", flush=True)
while True:
    signal.pause()
"""
FAIL = "import sys; print('no such model', file=sys.stderr); sys.exit(3)"
PROGRESS = r"""
import sys
sys.stderr.write("\r 10%\r 50%\r100%\nloaded\n")
sys.stderr.flush()
sys.exit(4)
"""
PARENT = """
from decoder_service.commands.processes import Launch, running_services
with running_services(lambda name, line: None) as services:
    services.start(Launch("one", "one", ()), lambda line: None)
    print(services._running[0].pid, flush=True)
    services.wait_for_failure()
"""


def ignore(*arguments: str) -> None:
    pass


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Makes ``python -m NAME`` run a script, in child processes."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source.replace("{name}", name))

    return write


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_dead(pid: int, timeout_s: float = 10.0) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while is_alive(pid) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return not is_alive(pid)


def test_a_service_is_started_with_its_arguments_and_stopped_gracefully(
    write_module: Callable[[str, str], None],
) -> None:
    write_module("one", SERVE)
    log: list[str] = []
    with running_services(lambda name, line: log.append(f"{name}: {line}")) as services:
        address = services.start(Launch("one", "one", ("--listen", "x")), ignore)
        (service,) = services._running
        assert address == "127.0.0.1:7"
    assert not is_alive(service.pid)
    assert "ended with exit status 0" in str(service.failure())
    assert log == ["one: loading --listen x", "one: stopped"]


def test_the_newest_service_is_stopped_first(write_module: Callable[[str, str], None]) -> None:
    write_module("one", SERVE)
    write_module("two", SERVE)
    log: list[str] = []
    services = Services(lambda name, line: log.append(f"{name}: {line}"))
    for name in ("one", "two"):
        services.start(Launch(name, name, ()), ignore)
    running = list(services._running)
    services.stop()
    for service in running:
        service.failure()  # joins the log
    assert [line for line in log if "stopped" in line] == ["two: stopped", "one: stopped"]


def test_a_service_that_fails_at_its_start_is_reported_with_its_log(
    write_module: Callable[[str, str], None],
) -> None:
    write_module("bad", FAIL)
    with (
        running_services(ignore) as services,
        pytest.raises(ServiceFailed, match=r"bad ended with exit status 3\nno such model"),
    ):
        services.start(Launch("bad", "bad", ()), ignore)


def test_of_a_progress_bar_only_the_end_enters_the_log(
    write_module: Callable[[str, str], None],
) -> None:
    write_module("slow", PROGRESS)
    log: list[str] = []
    with running_services(lambda name, line: log.append(line)) as services, pytest.raises(ServiceFailed):
        services.start(Launch("slow", "slow", ()), ignore)
    assert log == ["100%", "loaded"]


def test_a_service_that_dies_later_is_noticed(write_module: Callable[[str, str], None]) -> None:
    write_module("one", SERVE)
    write_module("two", SERVE)
    with running_services(ignore) as services:
        for name in ("one", "two"):
            services.start(Launch(name, name, ()), ignore)
        first, second = services._running
        os.kill(first.pid, signal.SIGKILL)
        assert "one ended with signal SIGKILL" in str(services.wait_for_failure())
    assert not is_alive(second.pid)


def test_a_termination_signal_stops_the_services(write_module: Callable[[str, str], None]) -> None:
    write_module("one", SERVE)
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child_pid = int(parent.stdout.readline())
    parent.terminate()
    parent.wait(10)
    assert not is_alive(child_pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of a parent's death")
def test_a_service_does_not_outlive_a_parent_that_is_killed(
    write_module: Callable[[str, str], None],
) -> None:
    write_module("one", SERVE)
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child_pid = int(parent.stdout.readline())
    assert is_alive(child_pid)
    parent.kill()
    parent.wait(10)
    assert wait_until_dead(child_pid)


def test_the_pair_starts_in_order_with_the_options_that_were_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launches: list[Launch] = []

    class Recorder(Services):
        def start(self, launch: Launch, on_wait: Callable[[str], None]) -> str:
            launches.append(launch)
            on_wait("converting [1/2]")
            return f"127.0.0.1:{len(launches)}"

    pair = start_pair(Recorder(ignore), PairOptions(dtype="float32"), Console(quiet=True))
    trie, decoder = launches
    assert (pair.trie, pair.decoder) == ("127.0.0.1:1", "127.0.0.1:2")
    assert trie == Launch("trie-service", "trie_service", ("--listen", "127.0.0.1:0", "--redis", "embedded:"))
    assert decoder.arguments == (
        "--listen",
        "127.0.0.1:0",
        "--trie",
        "127.0.0.1:1",
        "--dtype",
        "float32",
    )
