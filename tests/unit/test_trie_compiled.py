"""Nothing is compiled while somebody waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import compiled_verbs


def test_no_verb_compiles_what_was_not_compiled_before_serving() -> None:
    root = Path(compiled_verbs.__file__).parents[2]
    paths = [root, root / "protos", root / "tests" / "unit"]
    run = subprocess.run(
        [sys.executable, compiled_verbs.__file__],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1]) == []
