"""Runs trie-admin in the test's own process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from trie_service.admin.commands import app


def admin(address: str, *arguments: object) -> Result:
    """Run a command against a service."""
    words = ["--trie", address, *map(str, arguments)]
    return CliRunner().invoke(app, words, env={"COLUMNS": "250"})


def shown(run: Result) -> Any:
    """What a command that was done has printed as JSON."""
    assert run.exit_code == 0, run.stderr
    return json.loads(run.stdout)
