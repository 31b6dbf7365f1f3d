"""trie-admin's commands that look and change, against a fake index on real gRPC."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from admin_runs import admin, shown
from draftwell.trie.v1 import trie_pb2 as pb
from fake_admin_trie import FakeAdminTrie, serving
from typer.main import get_command
from typer.testing import CliRunner

from trie_service.admin.commands import app
from trie_service.admin.quantities import bytes_in, seconds_in
from trie_service.admin.sampling import rates_between

COMMANDS = (
    *("namespaces", "stats", "top", "suggest", "warm", "create", "limits"),
    *("copy", "forget", "delete", "export", "import", "snapshot", "verify"),
)


@pytest.fixture
def trie() -> FakeAdminTrie:
    service = FakeAdminTrie()
    service.add("support", num_tokens=1000, num_lookups=10, num_hits=5)
    return service


@pytest.fixture
def address(trie: FakeAdminTrie) -> Iterator[str]:
    with serving(trie) as served:
        yield served


def test_every_command_has_json_and_examples() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert set(COMMANDS) <= set(commands)
    for name, command in commands.items():
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert "--json" in flags, name
        assert f"trie-admin {name}" in command.help or f" {name} " in command.help, name
        assert "Examples:" in command.help, name


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_shown(name: str) -> None:
    run = CliRunner().invoke(app, [name, "--help"])
    assert run.exit_code == 0
    assert "--json" in run.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["namespaces"],
        ["stats"],
        ["top", "x"],
        ["suggest", "--tokens", "1"],
        ["warm", __file__, "--format", "txt"],
        ["create", "x", "--fingerprint", "f", "--vocab-size", "7"],
        ["limits", "x"],
        ["copy", "x", "y"],
        ["forget", "id"],
        ["delete", "x", "--yes"],
        ["export", "nowhere.dwns"],
        ["import", __file__],
        ["snapshot", "x"],
        ["verify", "x"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_service_that_does_not_answer_is_named_in_one_line(arguments: list[str]) -> None:
    run = admin("127.0.0.1:1", *arguments)
    assert run.exit_code == 1
    (line,) = run.stderr.splitlines()
    assert "no trie service answers at 127.0.0.1:1" in line
    assert "start one with `trie-service`, or name it with --trie" in line
    assert not Path("nowhere.dwns").exists()


def test_the_address_may_come_from_the_environment(address: str) -> None:
    run = CliRunner().invoke(app, ["namespaces", "--json"], env={"DRAFTWELL_TRIE_ADDRESS": address})
    assert [each["name"] for each in shown(run)] == ["support"]


def test_a_service_that_is_older_says_so(address: str) -> None:
    run = admin(address, "suggest", "--tokens", "1", "-n", "support")
    assert run.exit_code == 1
    assert "it does not know this command: it is older than trie-admin (UNIMPLEMENTED)" in run.stderr


def test_statistics_are_shown_with_their_limits(trie: FakeAdminTrie, address: str) -> None:
    trie.namespaces["support"].stats.snapshot_age_seconds = 12.0
    (support,) = shown(admin(address, "stats", "support", "--json"))["namespaces"]
    assert support["stats"]["num_lookups"] == 10
    assert support["stats"]["snapshot_age_seconds"] == 12.0
    assert support["limits"] == {"max_bytes": 0, "max_tokens_per_second": 0, "text_ttl_seconds": 0}
    table = admin(address, "stats").stdout
    for cell in ("trie-service 9.9, serving, store redis://fake", "support", "50%", "12 s"):
        assert cell in table
    trie.namespaces["support"].stats.ClearField("snapshot_age_seconds")
    (support,) = shown(admin(address, "namespaces", "--json"))
    assert support["stats"]["snapshot_age_seconds"] is None


def test_no_namespaces_are_told_in_words(trie: FakeAdminTrie, address: str) -> None:
    trie.namespaces.clear()
    assert "no namespaces yet" in admin(address, "namespaces").stdout
    assert shown(admin(address, "namespaces", "--json")) == []


def test_a_watch_shows_rates_from_the_second_look_on(address: str) -> None:
    run = admin(address, "stats", "--watch", "--interval", "0.1", "--count", "3", "--json")
    assert run.exit_code == 0, run.stderr
    looks = [json.loads(line)["namespaces"][0] for line in run.stdout.splitlines()]
    assert [("rates" in look) for look in looks] == [False, True, True]
    assert 100 < looks[1]["rates"]["tokens_per_second"] <= 1000  # 100 tokens in a tenth of a second or more
    assert looks[1]["rates"]["hit_rate"] is None
    table = admin(address, "stats", "--watch", "--interval", "0.1", "--count", "2").stdout
    assert "learned/s" in table


def test_rates_survive_a_restart_and_a_new_namespace() -> None:
    before = (pb.Namespace(name="a", stats=pb.NamespaceStats(num_tokens=100, num_lookups=8, num_hits=8)),)
    after = (
        pb.Namespace(name="a", stats=pb.NamespaceStats(num_tokens=30, num_lookups=12, num_hits=9)),
        pb.Namespace(name="b"),
    )
    rates = rates_between(before, after, 2.0)
    assert rates.keys() == {"a"}
    assert rates["a"].tokens_per_second == 15.0
    assert (rates["a"].lookups_per_second, rates["a"].hit_rate) == (2.0, 0.25)


def test_what_is_drafted_most_is_shown(trie: FakeAdminTrie, address: str) -> None:
    (top,) = shown(admin(address, "top", "support", "--json"))
    assert (top["num_drafts"], top["context"], top["tokens"]) == (9, [1, 2], [3, 4])
    assert "3 4" in admin(address, "top", "support").stdout
    trie.top = []
    assert "nothing was drafted yet" in admin(address, "top", "support").stdout


def test_a_namespace_is_created_with_limits(trie: FakeAdminTrie, address: str) -> None:
    made = shown(
        admin(
            address,
            "create",
            "new",
            "--fingerprint",
            "f",
            "--vocab-size",
            77,
            "--max-bytes",
            "2MiB",
            "--json",
        )
    )
    assert (made["name"], made["vocab_size"], made["limits"]["max_bytes"]) == ("new", 77, 2 << 20)
    assert "new" in trie.namespaces
    run = admin(address, "create", "new", "--fingerprint", "f")
    assert (run.exit_code, "--vocab-size" in run.stderr) == (2, True)


def test_limits_that_a_namespace_already_there_does_not_get_are_told(address: str) -> None:
    vocabulary = ("--fingerprint", "fp", "--vocab-size", "1000")
    made = admin(address, "create", "support", *vocabulary, "--max-bytes", "2GiB")
    assert made.exit_code == 0
    assert "support exists with other limits: `trie-admin limits` changes them" in made.stderr
    assert "limits" not in admin(address, "create", "support", *vocabulary).stderr
    assert "limits" not in admin(address, "create", "new", *vocabulary, "--max-bytes", "2GiB").stderr


def test_only_the_limits_that_are_given_change(trie: FakeAdminTrie, address: str) -> None:
    assert "memory the service's default" in admin(address, "limits", "support").stdout
    admin(address, "limits", "support", "--max-bytes", "1GiB", "--text-ttl", "30d")
    changed = admin(address, "limits", "support", "--max-tokens-per-second", "5000")
    assert changed.exit_code == 0
    now = trie.namespaces["support"].limits
    assert (now.max_bytes, now.max_tokens_per_second, now.text_ttl_seconds) == (1 << 30, 5000, 30 * 86400)
    assert "1,024 MiB" in changed.stdout
    admin(address, "limits", "support", "--text-ttl", "0")
    assert now.text_ttl_seconds == 0
    assert admin(address, "limits", "support", "--max-bytes", "lots").exit_code == 2


def test_amounts_are_read_as_people_write_them() -> None:
    assert [bytes_in(text) for text in ("5", "1KiB", "2k", "1.5MB", " 3 GiB ")] == [
        5,
        1024,
        2048,
        1_500_000,
        3 << 30,
    ]
    assert [seconds_in(text) for text in ("5", "2m", "12h", "30d", "1w")] == [5, 120, 43200, 2592000, 604800]
    for wrong in ("", "x", "-1", "1 parsec", "1e3"):
        with pytest.raises(ValueError, match="is not a size"):
            bytes_in(wrong)
        with pytest.raises(ValueError, match="is not a time"):
            seconds_in(wrong)


def test_a_copy_is_made_once(trie: FakeAdminTrie, address: str) -> None:
    assert "1,000 tokens" in admin(address, "copy", "support", "backup").stdout
    assert trie.namespaces["backup"].name == "backup"
    again = admin(address, "copy", "support", "backup", "--json")
    assert (again.exit_code, "exists (ALREADY_EXISTS)" in again.stderr) == (1, True)


def test_one_sequence_is_forgotten(trie: FakeAdminTrie, address: str) -> None:
    trie.learned["id"] = pb.LearnRequest(tokens=[1, 2, 3])
    assert shown(admin(address, "forget", "id", "-n", "support", "--json"))["num_tokens"] == 3
    gone = admin(address, "forget", "id", "-n", "support")
    assert (gone.exit_code, "no sequence 'id' (NOT_FOUND)" in gone.stderr) == (1, True)


def test_nothing_is_deleted_where_nobody_can_be_asked(trie: FakeAdminTrie, address: str) -> None:
    run = admin(address, "delete", "support")
    assert (run.exit_code, "give --yes" in run.stderr) == (2, True)
    assert "support" in trie.namespaces
    assert shown(admin(address, "delete", "support", "--yes", "--json")) == {"deleted": "support"}
    assert "support" not in trie.namespaces
    assert admin(address, "delete", "support", "--yes").exit_code == 1


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_a_person_at_a_terminal_is_asked(trie: FakeAdminTrie, address: str, answer: str, status: int) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "trie_service.admin", "--trie", address, "delete", "support"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.write(ours, answer.encode())
    _, asked = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert "Delete 'support' and all that it learned" in asked
    assert process.returncode == status
    assert ("support" in trie.namespaces) == bool(status)


def at_terminal(*words: str) -> tuple[int, str]:
    """Exit status and everything that a command writes to a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "trie_service.admin", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 1 << 16):
            written += chunk
    except OSError:  # how Linux tells that the other side has closed
        pass
    os.close(ours)
    return process.wait(60), written.decode()


def test_a_terminal_shows_a_bar_and_a_live_table(address: str, tmp_path: Path) -> None:
    corpus = tmp_path / "a.jsonl"
    corpus.write_text('{"tokens": [1, 2, 3]}\n' * 1000)
    status, written = at_terminal("--trie", address, "warm", str(corpus), "-n", "support")
    assert (status, "100%" in written, "tokens/s" in written) == (0, True, True)
    status, written = at_terminal(
        *("--trie", address, "stats", "--watch", "--count", "2", "--interval", "0.1")
    )
    assert (status, "learned/s" in written, written.count("trie-service 9.9") >= 2) == (0, True, True)
