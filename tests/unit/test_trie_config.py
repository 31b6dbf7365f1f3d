"""Settings: where they come from, and what a wrong one says."""

from __future__ import annotations

import pytest

from trie_service.config import TrieConfig
from trie_service.errors import ConfigError


def test_the_defaults_are_valid() -> None:
    config = TrieConfig.load({})
    assert config.listen == "127.0.0.1:50052"
    assert config.redis == "embedded:"
    assert config.max_bytes == 256 << 20
    assert config.metrics_listen == ""
    assert config.max_total_bytes == config.max_namespaces == config.text_ttl_s == 0


def test_flags_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTWELL_TRIE_LISTEN", "0.0.0.0:1")
    monkeypatch.setenv("DRAFTWELL_TRIE_AUTO_CREATE", "false")
    config = TrieConfig.load({"listen": "0.0.0.0:2", "auto_create": None})
    assert config.listen == "0.0.0.0:2"
    assert not config.auto_create


def test_bytes_may_have_a_unit() -> None:
    assert TrieConfig.load({"max_bytes": "2MiB"}).max_bytes == 2 << 20


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listen", "50052"),
        ("listen", "host:port"),
        ("listen", "host:70000"),
        ("redis", "localhost:6379"),
        ("max_bytes", "1000"),
        ("max_bytes", "many"),
        ("log_format", "xml"),
        ("max_order", 33),
        ("draft_nodes", 0),
        ("metrics_listen", "9090"),
        ("max_total_bytes", "lots"),
        ("max_namespaces", -1),
        ("text_ttl_s", -1),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    flag, variable = f"--{name.replace('_', '-')}", f"DRAFTWELL_TRIE_{name.upper()}"
    with pytest.raises(ConfigError, match=rf"{flag} \({variable}\): "):
        TrieConfig.load({name: value})
    monkeypatch.setenv(variable, str(value))
    with pytest.raises(ConfigError, match=rf"^{variable}: "):
        TrieConfig.load({})


def test_a_password_in_a_wrong_setting_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        TrieConfig.load({"redis": "http://user:secret@host"})
    assert "secret" not in str(caught.value)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        TrieConfig.load({}).listen = "a:1"  # type: ignore[misc]
