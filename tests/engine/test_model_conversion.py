"""Which weights a GGUF file is converted to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import decoder_service.model as model_module
from decoder_service.embedded_model import locate_model
from decoder_service.model import ModelOptions, load_model


class ConvertedError(Exception):
    """Ends the load once it is known what would be converted."""


@pytest.mark.parametrize(
    ("dtype", "weights", "suffix"),
    [(torch.bfloat16, torch.bfloat16, ""), (torch.float32, torch.float32, "-float32")],
    ids=str,
)
def test_a_gguf_file_is_converted_to_the_number_type_that_runs(
    dtype: torch.dtype, weights: torch.dtype, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gguf = tmp_path / "small.gguf"
    gguf.write_bytes(b"GGUF")
    files = locate_model(str(gguf), tmp_path / "cache")
    asked: list[tuple[Path, str, torch.dtype]] = []

    def convert(source: Path, folder: Path, dtype: torch.dtype) -> None:
        asked.append((source, folder.name, dtype))
        raise ConvertedError

    monkeypatch.setattr(model_module, "_convert", convert)
    with pytest.raises(ConvertedError):
        load_model(files, ModelOptions(dtype, torch.device("cpu"), 128, 128, max_rows=16))
    ((source, temporary, converted_to),) = asked
    assert (source, converted_to) == (gguf, weights)
    assert temporary.startswith(f".{files.folder.name}{suffix}-")
