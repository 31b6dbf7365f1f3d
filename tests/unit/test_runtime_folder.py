"""Temporary folders go with the processes that made them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trie_service.runtime_folder import RuntimeFolder, remove_abandoned

MAKE_AND_WAIT = (
    "from trie_service.runtime_folder import RuntimeFolder\n"
    "folder = RuntimeFolder()\n"
    "(folder.path / 'valkey.sock').touch()\n"
    "print(folder.path, flush=True)\n"
    "input()\n"
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_killed_owners_folder_goes_when_the_next_is_made_and_a_living_owners_stays(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAKE_AND_WAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        theirs = Path(owner.stdout.readline().strip())
        ours = RuntimeFolder()
        assert {folder.name for folder in temporary.iterdir()} == {theirs.name, ours.path.name}
        owner.kill()
        owner.wait()
    remove_abandoned(temporary)
    assert list(temporary.iterdir()) == [ours.path]
    ours.remove()
    assert list(temporary.iterdir()) == []


def test_what_no_service_made_stays(temporary: Path) -> None:
    unlocked = temporary / "draftwell-unlocked"
    unlocked.mkdir()
    (temporary / "draftwell-file").touch()
    kept = temporary / "kept"
    kept.mkdir()
    (kept / "owned").touch()
    (temporary / "draftwell-link").symlink_to(kept)
    remove_abandoned(temporary)
    assert sorted(path.name for path in temporary.iterdir()) == [
        "draftwell-file",
        "draftwell-link",
        "draftwell-unlocked",
        "kept",
    ]
    assert (kept / "owned").exists()


def test_another_users_folder_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = temporary / "draftwell-theirs"
    folder.mkdir()
    (folder / "owned").touch()
    monkeypatch.setattr("os.getuid", lambda: folder.stat().st_uid + 1)
    remove_abandoned(temporary)
    assert folder.exists()
    monkeypatch.undo()
    remove_abandoned(temporary)
    assert not folder.exists()
