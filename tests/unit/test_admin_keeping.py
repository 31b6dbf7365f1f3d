"""trie-admin's commands that keep an index safe, against a fake index on real gRPC."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from admin_runs import admin, shown
from draftwell.trie.v1 import trie_pb2 as pb
from fake_admin_trie import FakeAdminTrie, serving


@pytest.fixture
def trie() -> FakeAdminTrie:
    service = FakeAdminTrie()
    service.add("support", num_tokens=1000, num_lookups=10, num_hits=5)
    return service


@pytest.fixture
def address(trie: FakeAdminTrie) -> Iterator[str]:
    with serving(trie) as served:
        yield served


def test_an_export_is_whole(trie: FakeAdminTrie, address: str, tmp_path: Path) -> None:
    file = tmp_path / "support.dwns"
    written = shown(admin(address, "export", file, "-n", "support", "--json"))
    assert written["num_bytes"] == len(trie.file)
    assert file.read_bytes() == trie.file
    refused = admin(address, "export", file, "-n", "support")
    assert (refused.exit_code, "--force replaces it" in " ".join(refused.stderr.split())) == (2, True)
    assert admin(address, "export", file, "-n", "support", "--force").exit_code == 0
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("failure", ["breaks off", "ends early", "unknown", "no folder"])
def test_a_failed_export_leaves_nothing_and_harms_nothing(
    trie: FakeAdminTrie, address: str, tmp_path: Path, failure: str
) -> None:
    file = tmp_path / "support.dwns"
    file.write_bytes(b"the old one")
    if failure == "breaks off":
        trie.failures = [grpc.StatusCode.INTERNAL]
    elif failure == "ends early":
        trie.file_bytes += 1
    namespace = "unknown" if failure == "unknown" else "support"
    target = tmp_path / "none" / "support.dwns" if failure == "no folder" else file
    run = admin(address, "export", target, "-n", namespace, "--force")
    assert run.exit_code == 1
    assert run.stderr.startswith("trie-admin: ")
    assert file.read_bytes() == b"the old one"
    assert list(tmp_path.iterdir()) == [file]


def test_an_import_makes_a_namespace(trie: FakeAdminTrie, address: str, tmp_path: Path) -> None:
    file = tmp_path / "support.dwns"
    trie.file *= 300  # several pieces
    file.write_bytes(trie.file)
    assert shown(admin(address, "import", file, "-n", "restored", "--json"))["name"] == "restored"
    assert trie.imported == trie.file
    assert "in-file: 5 tokens" in admin(address, "import", file).stdout
    file.write_bytes(b"")
    wrong = admin(address, "import", file)
    assert (wrong.exit_code, "not a file of this service" in wrong.stderr) == (1, True)
    assert admin(address, "import", tmp_path / "none").exit_code == 2


def test_a_snapshot_is_written(address: str) -> None:
    written = shown(admin(address, "snapshot", "support", "--json"))
    assert written == {"namespace": "support", "num_bytes": 1234, "num_tokens": 56, "num_trimmed": 7}
    assert "7 log entries trimmed" in admin(address, "snapshot", "support").stdout


def test_replicas_that_hold_the_same_are_well(trie: FakeAdminTrie, address: str) -> None:
    other = FakeAdminTrie()
    other.add("support")
    other.applied = [5, 6, 7]  # it is behind at first
    with serving(other) as second:
        found = shown(admin(address, "verify", "support", address, second, "--json"))
    assert found["ok"]
    assert [replica["num_applied"] for replica in found["replicas"]] == [7, 7]
    assert "well, 7 entries applied, digest same" in admin(address, "verify", "support").stdout


@pytest.mark.parametrize("difference", ["digest", "behind", "problem", "gone"])
def test_replicas_that_differ_are_told_apart(trie: FakeAdminTrie, address: str, difference: str) -> None:
    other = FakeAdminTrie()
    other.add("support")
    if difference == "digest":
        other.digest = "another"
    elif difference == "behind":
        other.applied = [6]
    elif difference == "problem":
        other.problems = ["a node has no parent"]
    with serving(other) as second:
        asked = "127.0.0.1:1" if difference == "gone" else second
        run = admin(address, "verify", "support", address, asked, "--wait", "0.3")
        as_json = admin(address, "verify", "support", address, asked, "--wait", "0", "--json")
    assert run.exit_code == as_json.exit_code == 1
    expected = {
        "digest": "hold different statistics",
        "behind": "has applied 6 log entries",
        "problem": "a node has no parent",
        "gone": "no trie service answers at 127.0.0.1:1",
    }[difference]
    assert expected in run.stderr
    assert not json.loads(as_json.stdout)["ok"]


def test_a_command_that_is_told_to_end_cleans_up(trie: FakeAdminTrie, tmp_path: Path) -> None:
    stuck = StuckExport()
    with serving(stuck) as address:
        words = ["--trie", address, "export", str(tmp_path / "a.dwns"), "-n", "support"]
        process = subprocess.Popen(
            [sys.executable, "-m", "trie_service.admin", *words], stderr=subprocess.PIPE, text=True
        )
        assert stuck.started.wait(60)
        while not list(tmp_path.iterdir()):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
        stuck.may_end.set()
    assert process.returncode == 130
    assert told.strip() == "trie-admin: interrupted"
    assert not list(tmp_path.iterdir())


class StuckExport(FakeAdminTrie):
    """Sends the first piece of an export and then waits."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.may_end = threading.Event(), threading.Event()
        self.add("support")

    def ExportNamespace(
        self, request: pb.ExportNamespaceRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.ExportNamespaceResponse]:
        yield pb.ExportNamespaceResponse(data=b"x", total_bytes=2)
        self.started.set()
        self.may_end.wait(60)
