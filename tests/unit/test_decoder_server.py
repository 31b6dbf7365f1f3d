"""The decoder-service command: what it says and how it ends, without loading a model."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from decoder_service import __version__
from decoder_service.config import ConfigError, DecoderConfig
from decoder_service.server import app
from decoder_service.service import load


def run(*arguments: str, **environment: str) -> Result:
    settings = {"DRAFTWELL_DECODER_LISTEN": "127.0.0.1:0"}
    settings |= {f"DRAFTWELL_DECODER_{name.upper()}": value for name, value in environment.items()}
    return CliRunner().invoke(app, arguments, env=settings)


def test_the_version_is_printed() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"decoder-service {__version__}\n")


def test_the_help_names_every_option_and_the_environment() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for word in (
        "--listen",
        "--trie",
        "--model",
        "--dtype",
        "--device",
        "--drafts",
        "DRAFTWELL_DECODER_LISTEN",
    ):
        assert word in result.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--listen", "nowhere"), "--listen (DRAFTWELL_DECODER_LISTEN): 'nowhere' is not HOST:PORT"),
        (("--drafts", "oracle"), "--drafts (DRAFTWELL_DECODER_DRAFTS): 'oracle' is no draft source"),
        (("--dtype", "int4"), "--dtype (DRAFTWELL_DECODER_DTYPE): Input should be 'bfloat16' or 'float32'"),
        (("--max-streams", "0"), "--max-streams (DRAFTWELL_DECODER_MAX_STREAMS): Input should be greater"),
        (("--device", "abacus"), "--device (DRAFTWELL_DECODER_DEVICE): 'abacus' cannot be used"),
    ],
)
def test_a_bad_flag_is_named_and_ends_with_status_2(arguments: tuple[str, ...], expected: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert f"decoder-service: {expected}" in result.stderr
    assert "Traceback" not in result.output


def test_a_bad_variable_is_named_and_ends_with_status_2() -> None:
    result = run(max_queue="0")
    assert result.exit_code == 2
    assert "--max-queue (DRAFTWELL_DECODER_MAX_QUEUE): Input should be greater" in result.stderr


def test_a_port_that_is_taken_is_named_before_the_model_is_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = run("--listen", address, "--model", "no/such/model")
    assert result.exit_code == 2
    assert f"--listen (DRAFTWELL_DECODER_LISTEN): cannot bind {address}: " in result.stderr
    assert "in use" in result.stderr


def test_a_host_that_is_not_this_machine_is_named() -> None:
    result = run("--listen", "192.0.2.1:50051", "--model", "no/such/model")
    assert result.exit_code == 2
    assert "cannot bind 192.0.2.1:50051: " in result.stderr


def test_a_model_that_does_not_exist_is_named() -> None:
    result = run("--model", "no/such/model")
    assert result.exit_code == 1
    assert result.stderr.strip() == (
        "decoder-service: model 'no/such/model' is neither 'smollm2-135m-instruct' nor a .gguf file "
        "nor a folder that holds a config.json"
    )


@pytest.mark.parametrize(
    "config",
    ["{", '{"model_type": "nonsense"}', '{"model_type": "llama"}', "[]"],
    ids=["broken", "unknown", "no weights", "not an object"],
)
def test_a_model_that_cannot_be_loaded_is_named(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    result = run("--model", str(tmp_path))
    assert result.exit_code == 2
    assert f"--model (DRAFTWELL_DECODER_MODEL): '{tmp_path}' cannot be loaded: " in result.stderr
    assert "Traceback" not in result.output


def test_a_gguf_file_that_is_none_is_named(tmp_path: Path) -> None:
    fake = tmp_path / "fake.gguf"
    fake.write_bytes(b"GGUF? no")
    result = run("--model", str(fake), cache_folder=str(tmp_path / "cache"))
    assert result.exit_code == 2
    assert f"'{fake}' cannot be loaded: " in result.stderr
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_the_check_refuses_bad_settings_like_the_service() -> None:
    result = run("check", "--dtype", "int4")
    assert result.exit_code == 2
    assert "--dtype (DRAFTWELL_DECODER_DTYPE)" in result.stderr


def test_a_device_that_is_not_there_is_refused_before_the_model_is_read() -> None:
    config = DecoderConfig.load({"device": "cuda:99", "model": "no/such/model"})
    with pytest.raises(ConfigError, match="'cuda:99' cannot be used"):
        load(config)
