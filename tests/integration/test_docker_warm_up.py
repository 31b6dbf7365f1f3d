"""The script that compiles the index's code into its image."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FIRST_RUN = """
import runpy, sys
from trie_service import drafting
runpy.run_path(sys.argv[1], run_name="__main__")
print(any(drafting._grow_drafts.stats.cache_hits.values()))  # a second process has compiled it
"""
ROOT = Path(__file__).resolve().parents[2]


def test_an_image_carries_all_compiled_code_that_a_start_needs(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "docker" / "warm_trie.py")]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    first = [sys.executable, "-c", FIRST_RUN, command[1]]
    warmed = subprocess.run(first, env=environment, capture_output=True, text=True, check=False)
    assert warmed.returncode == 0, warmed.stderr
    assert warmed.stdout == ("True\n" if (os.cpu_count() or 1) > 1 else "False\n")
    carried = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}
    assert carried
    started = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (started.returncode, started.stderr) == (0, "")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")} == carried
