"""Settings of the decoder service: where they come from, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from decoder_service.config import ConfigError, DecoderConfig, default_cache_folder
from decoder_service.embedded_model import EMBEDDED


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without settings of this service."""
    for field in DecoderConfig.model_fields:
        monkeypatch.delenv(f"DRAFTWELL_DECODER_{field.upper()}", raising=False)


def test_defaults_serve_the_embedded_model_without_an_index() -> None:
    config = DecoderConfig.load({})
    assert (config.model, config.trie, config.drafts) == (EMBEDDED, "", "own,index,model")
    assert (config.draft_model, config.draft_depth, config.draft_width) == ("", 8, 3)


def test_flags_win_over_the_environment_and_that_over_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTWELL_DECODER_MAX_STREAMS", "3")
    monkeypatch.setenv("DRAFTWELL_DECODER_DRAFT_NODES", "5")
    config = DecoderConfig.load({"max_streams": 4, "draft_nodes": None})
    assert (config.max_streams, config.draft_nodes, config.max_queue) == (4, 5, 64)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("listen", "50051", "'50051' is not HOST:PORT, for example 127.0.0.1:50051"),
        ("listen", ":50051", "is not HOST:PORT"),
        ("listen", "host:65536", "is not HOST:PORT"),
        ("listen", "host:-1", "is not HOST:PORT"),
        ("drafts", "own,oracle", "'oracle' is no draft source; there are own, index"),
        ("dtype", "float16", "'bfloat16' or 'float32'"),
        ("max_streams", 0, "greater than or equal to 1"),
        ("max_queue", "many", "valid integer"),
        ("draft_nodes", -1, "greater than or equal to 0"),
        ("draft_nodes", 257, "less than or equal to 256"),
        ("draft_depth", 0, "greater than or equal to 1"),
        ("draft_width", 65, "less than or equal to 64"),
        ("min_probability", "nan", "less than or equal to 1"),
        ("draft_deadline_ms", 0, "greater than 0"),
        ("draft_deadline_ms", "nan", "less than or equal to 10000"),
        ("stop_grace_s", "inf", "less than or equal to 600"),
        ("log_format", "xml", "'console' or 'json'"),
        ("namespace", "a b", "'a b' is not 1 to 128 letters, digits, '.', '_' and '-'"),
        ("namespace", "a/b", "'a/b' is not 1 to 128 letters"),
        ("namespace", "n" * 129, "is not 1 to 128 letters"),
        ("namespace", "a\n", "is not 1 to 128 letters"),
    ],
)
def test_a_wrong_setting_is_named_with_its_flag_and_variable(name: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DecoderConfig.load({name: value})
    message = str(caught.value)
    assert message.startswith(f"--{name.replace('_', '-')} (DRAFTWELL_DECODER_{name.upper()}): ")
    assert expected in message


@pytest.mark.parametrize("name", ["", "default", "Team-7_a.b", "n" * 128])
def test_a_namespace_may_have_any_name_that_the_index_takes(name: str) -> None:
    assert DecoderConfig.load({"namespace": name}).namespace == name


def test_a_wrong_setting_of_the_environment_is_named_with_its_flag_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DRAFTWELL_DECODER_PREFILL_ROWS", "1")
    with pytest.raises(ConfigError, match=r"^DRAFTWELL_DECODER_PREFILL_ROWS: "):
        DecoderConfig.load({"threads": None})
    with pytest.raises(ConfigError, match=r"^--prefill-rows \(DRAFTWELL_DECODER_PREFILL_ROWS\): "):
        DecoderConfig.load({"prefill_rows": None})


def test_all_wrong_settings_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        DecoderConfig.load({"listen": "x", "max_streams": 0})
    assert [line.split(" ")[0] for line in str(caught.value).splitlines()] == ["--listen", "--max-streams"]


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match="--speed"):
        DecoderConfig.load({"speed": 11})


def test_no_drafts_at_all_may_be_the_default() -> None:
    assert DecoderConfig.load({"drafts": ""}).drafts == ""


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / "draftwell"
    assert DecoderConfig.load({}).cache_folder == tmp_path / "draftwell"
