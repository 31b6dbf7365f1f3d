"""Messages name only flags that a command has."""

from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

import decoder_service.server
import trie_service.server
from decoder_service.config import DecoderConfig
from trie_service.config import TrieConfig

FLAG = re.compile(r"--[a-z-]+")
TAKE_ANY_TEXT = ("trie", "model", "draft_model", "cache_folder", "device")
SETTINGS = [
    pytest.param(
        app, f"DRAFTWELL_{service}_{name.upper()}", f"--{name.replace('_', '-')}", id=f"{service}-{name}"
    )
    for app, service, config in (
        (trie_service.server.app, "TRIE", TrieConfig),
        (decoder_service.server.app, "DECODER", DecoderConfig),
    )
    for name in config.model_fields
    if name not in TAKE_ANY_TEXT
]


@pytest.mark.parametrize(("app", "variable", "flag"), SETTINGS)
def test_a_bad_variable_is_named_with_its_flag_if_the_command_has_it(
    app: typer.Typer, variable: str, flag: str
) -> None:
    wide = {"COLUMNS": "300", "TERMINAL_WIDTH": "300"}
    has_flag = flag in FLAG.findall(CliRunner().invoke(app, ["--help"], env=wide).stdout)
    result = CliRunner().invoke(app, [], env={variable: "b a d"})
    assert result.exit_code == 2
    expected = f"{flag} ({variable}): " if has_flag else f": {variable}: "
    assert expected in result.stderr
    assert (flag in result.stderr) == has_flag
