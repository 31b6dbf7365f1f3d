"""The script that compiles the index's code into its image."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_an_image_carries_all_compiled_code_that_a_start_needs(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "docker" / "warm_trie.py")]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    warmed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert warmed.returncode == 0, warmed.stderr
    carried = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}
    assert carried
    started = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (started.returncode, started.stderr) == (0, "")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")} == carried
