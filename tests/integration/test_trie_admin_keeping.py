"""``trie-admin`` looks after namespaces of real replicas: interruptions, files, limits, comparisons."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from trie_processes import Replica, Valkey, until
from typer.testing import CliRunner

from trie_service.admin.commands import app

NUM_LINES = 2000


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with Valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture(scope="module")
def replica(valkey: Valkey) -> Iterator[Replica]:
    with Replica("--redis", valkey.url) as started:
        yield started


def admin(replica: Replica, *arguments: object) -> Result:
    words = ["--trie", replica.address, *map(str, arguments)]
    return CliRunner().invoke(app, words, env={"COLUMNS": "250"})


def shown(run: Result) -> Any:
    assert run.exit_code == 0, run.stderr
    return json.loads(run.stdout)


def start_warm(replica: Replica, *arguments: object) -> subprocess.Popen[str]:
    words = ["--trie", replica.address, "warm", *map(str, arguments), "--fingerprint", "fp"]
    heeding = ["env", "--default-signal=INT"]  # a shell has what it runs in the background ignore it
    return subprocess.Popen(
        [*heeding, sys.executable, "-m", "trie_service.admin", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines(first: int, last: int) -> str:
    return "".join(
        json.dumps({"tokens": [line % 97, line % 89, line % 83]}) + "\n" for line in range(first, last)
    )


def num_learned(replica: Replica, namespace: str) -> int:
    names = [each["name"] for each in shown(admin(replica, "namespaces", "--json"))]
    return replica.num_sequences(namespace) if namespace in names else 0


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_warm_that_was_interrupted_counts_nothing_twice(
    replica: Replica, tmp_path: Path, ending: signal.Signals
) -> None:
    namespace, place = f"interrupted-{ending.name}", tmp_path / "place.json"
    first = start_warm(replica, "-", "-n", namespace, "--resume", place)
    assert first.stdin is not None
    first.stdin.write(lines(0, NUM_LINES - 500))
    first.stdin.flush()
    until(lambda: num_learned(replica, namespace) > 0)
    first.send_signal(ending)
    _, told = first.communicate(timeout=60)
    assert num_learned(replica, namespace) < NUM_LINES
    if ending is not signal.SIGKILL:
        assert first.returncode == 130
        assert "interrupted" in told
        assert json.loads(place.read_text())["namespace"] == namespace

    second = start_warm(replica, "-", "-n", namespace, "--resume", place, "--json", "--wait")
    out, told = second.communicate(lines(0, NUM_LINES), timeout=60)
    assert second.returncode == 0, told
    report = json.loads(out)
    assert report["num_documents"] + report["num_resumed"] == NUM_LINES
    assert replica.num_sequences(namespace) == NUM_LINES


def test_a_file_that_is_learned_again_teaches_nothing(replica: Replica, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines(0, 300))
    for _ in range(2):
        run = admin(replica, "warm", path, "-n", "again", "--fingerprint", "fp", "--wait", "--json")
        assert shown(run)["num_sequences"] == 300
        assert replica.num_sequences("again") == 300


def test_a_namespace_goes_through_its_life(replica: Replica, tmp_path: Path) -> None:
    made = shown(
        admin(
            replica,
            "create",
            "life",
            "--fingerprint",
            "fp",
            "--vocab-size",
            1000,
            "--max-bytes",
            "8MiB",
            "--json",
        )
    )
    assert (made["vocab_size"], made["limits"]["max_bytes"]) == (1000, 8 << 20)
    changed = shown(admin(replica, "limits", "life", "--max-tokens-per-second", 500_000, "--json"))["limits"]
    assert changed == {"max_bytes": 8 << 20, "max_tokens_per_second": 500_000, "text_ttl_seconds": 0}

    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": [10, 20, 30, 40]}\n{"tokens": [10, 20, 31]}\n{"tokens": [2000]}\n')
    warmed = admin(replica, "warm", path, "-n", "life", "--wait", "--json")
    assert shown(warmed)["num_bad"] == 1
    assert "2000 is not below the namespace's vocabulary size 1000" in warmed.stderr
    assert replica.suggest("life", 10, 20)

    file = tmp_path / "life.dwns"
    assert shown(admin(replica, "export", file, "-n", "life", "--json"))["num_bytes"] == file.stat().st_size
    assert shown(admin(replica, "copy", "life", "copied", "--json"))["name"] == "copied"
    assert shown(admin(replica, "import", file, "-n", "restored", "--json"))["name"] == "restored"
    for name in ("copied", "restored"):
        until(lambda name=name: set(replica.suggest(name, 10, 20)) == {30, 31, 40})

    assert shown(admin(replica, "delete", "life", "--yes", "--json")) == {"deleted": "life"}
    assert replica.suggest("life", 10, 20) == []
    assert replica.suggest("copied", 10, 20) != []


def test_a_damaged_file_is_refused(replica: Replica, tmp_path: Path) -> None:
    replica.learn("whole", [1, 2, 3, 4] * 50)
    file = tmp_path / "whole.dwns"
    assert admin(replica, "export", file, "-n", "whole").exit_code == 0
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    run = admin(replica, "import", file, "-n", "damaged")
    assert run.exit_code == 1, run.stdout
    assert num_learned(replica, "damaged") == 0


def test_a_sequence_is_forgotten_by_the_id_of_the_warm(replica: Replica, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": [1, 2, 3]}\n{"tokens": [7, 8, 9]}\n')
    listed = admin(replica, "warm", path, "-n", "forgetful", "--fingerprint", "fp", "--wait", "--list-ids")
    assert listed.exit_code == 0, listed.stderr
    ids = dict(line.split("\t")[::-1] for line in listed.stdout.splitlines())
    sequence_id = ids[f"{path}:2"]
    forgotten = shown(admin(replica, "forget", sequence_id, "-n", "forgetful", "--json"))
    assert forgotten["num_tokens"] == 3
    until(lambda: replica.suggest("forgetful", 7, 8) == [])
    assert replica.suggest("forgetful", 1, 2) == [3]


def test_what_was_drafted_is_at_the_top(replica: Replica) -> None:
    replica.learn("popular", [5, 6, 7])
    until(lambda: replica.suggest("popular", 5, 6) == [7])
    for _ in range(16):  # one draft in a few is counted
        replica.suggest("popular", 5, 6)
    drafts = shown(admin(replica, "top", "popular", "--json"))
    assert [5, 6] in [draft["context"][-2:] for draft in drafts]


def test_a_snapshot_holds_what_was_learned(replica: Replica) -> None:
    replica.learn("kept", *([number, number + 1, 5] for number in range(200)))
    until(lambda: replica.num_sequences("kept") == 200)
    written = shown(admin(replica, "snapshot", "kept", "--json"))
    assert written["num_tokens"] == 600
    assert written["num_bytes"] > 0
    (kept,) = shown(admin(replica, "stats", "kept", "--json"))["namespaces"]
    assert kept["stats"]["snapshot_age_seconds"] < 60
    assert kept["stats"]["snapshot_bytes"] == written["num_bytes"]
    assert admin(replica, "verify", "kept").exit_code == 0


def test_replicas_are_compared(valkey: Valkey, replica: Replica) -> None:
    replica.learn("compared", *([number, number + 1, 5] for number in range(200)))
    with Replica("--redis", valkey.url) as other:
        found = shown(admin(replica, "verify", "compared", replica.address, other.address, "--json"))
        assert found["ok"], found
        assert len({each["digest"] for each in found["replicas"]}) == 1
        other.kill()
        gone = admin(replica, "verify", "compared", replica.address, other.address)
        assert gone.exit_code == 1
        assert f"no trie service answers at {other.address}" in gone.stderr
