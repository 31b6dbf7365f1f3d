from __future__ import annotations

from pathlib import Path

import pytest

from decoder_service.embedded_model import ModelFiles, ModelNotFoundError, locate_model


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    file = tmp_path / "small.gguf"
    file.write_bytes(b"GGUF")
    return file


def convert(files: ModelFiles) -> None:
    files.folder.mkdir(parents=True)
    (files.folder / "config.json").write_text("{}")


def test_a_gguf_file_has_one_conversion_a_number_type(gguf: Path, tmp_path: Path) -> None:
    narrow = locate_model(str(gguf), tmp_path / "cache")
    wide = narrow.in_dtype("float32")
    assert (narrow.gguf, wide.gguf) == (gguf, gguf)
    assert narrow.folder.parent == wide.folder.parent == tmp_path / "cache" / "models"
    convert(narrow)
    again = locate_model(str(gguf), tmp_path / "cache")
    assert (again.folder, again.gguf) == (narrow.folder, None)
    assert again.in_dtype("bfloat16") == again
    assert again.in_dtype("float32") == wide
    convert(wide)
    assert again.in_dtype("float32").gguf is None
    assert wide.in_dtype("bfloat16") == again


def test_the_bfloat16_conversion_keeps_the_name_that_it_always_had(gguf: Path, tmp_path: Path) -> None:
    folder = locate_model(str(gguf), tmp_path).folder
    assert folder.name.removeprefix("small-").isalnum()
    assert locate_model(str(gguf), tmp_path).in_dtype("float32").folder.name == f"{folder.name}-float32"


def test_a_folder_is_loaded_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    files = locate_model(str(tmp_path), tmp_path / "cache")
    assert files.in_dtype("float32") == files == ModelFiles(tmp_path.name, tmp_path, None)


def test_what_is_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"neither 'smollm2-135m-instruct' nor a \.gguf file"):
        locate_model(str(tmp_path), tmp_path)
