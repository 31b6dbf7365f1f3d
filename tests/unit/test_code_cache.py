"""Machine code is kept between starts, but never that of other sources."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import pytest

import decoder_service.code_cache
import decoder_service.compiled
import trie_service.code_cache
import trie_service.compiled

ROOT = Path(__file__).resolve().parents[2]
CACHES = (trie_service.code_cache, decoder_service.code_cache)
CALLEE = "from {compiled} import compiled\n\n@compiled\ndef inner(x):\n    return x + {number}\n"
CALLER = (
    "from {compiled} import compiled\nfrom sample.callee import inner\n\n"
    "@compiled\ndef outer(x):\n    return 10 * inner(x)\n"
)

Write = Callable[[int], None]
Load = Callable[[], Any]


@pytest.fixture(params=CACHES, ids=lambda cache: cache.__package__)
def cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """One service's cache, which keeps code below ``tmp_path / "code"``."""
    module: ModuleType = request.param
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "code"))
    module._temporary.cache_clear()
    module._warn_once.cache_clear()
    return module


@pytest.fixture
def write(tmp_path: Path, cache: ModuleType) -> Write:
    """Writes a package of two modules, of which one calls the other; its files never look newer."""

    def write_sample(number: int) -> None:
        folder = tmp_path / "sample"
        folder.mkdir(exist_ok=True)
        compiled = f"{cache.__package__}.compiled"
        sources = {
            "__init__": "",
            "callee": CALLEE.format(compiled=compiled, number=number),
            "caller": CALLER.format(compiled=compiled),
            "bystander": f"NUMBER = {number}\n",
        }
        for name, text in sources.items():
            (folder / f"{name}.py").write_text(text)
            os.utime(folder / f"{name}.py", (1e9, 1e9))
        cache.sources_hash.cache_clear()
        cache._imported.cache_clear()

    return write_sample


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports that package afresh, as a new process would; gives the outer function."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load_outer() -> Any:
        for name in [name for name in sys.modules if name.partition(".")[0] == "sample"]:
            monkeypatch.delitem(sys.modules, name)
        importlib.invalidate_caches()
        return importlib.import_module("sample.caller").outer

    return load_outer


def test_code_is_loaded_again_until_a_called_function_of_another_file_changes(
    write: Write, load: Load
) -> None:
    write(1)
    first, again = load(), load()
    assert first(1) == again(1) == 20
    assert sum(first.stats.cache_hits.values()) == 0
    assert sum(again.stats.cache_hits.values()) == 1
    write(2)
    edited = load()
    assert edited(1) == 30
    assert sum(edited.stats.cache_hits.values()) == 0


def test_only_sources_that_take_part_name_the_code(write: Write, tmp_path: Path, cache: ModuleType) -> None:
    write(1)
    names = {name: cache.sources_hash(tmp_path / "sample" / f"{name}.py") for name in ("caller", "callee")}
    write(2)
    (tmp_path / "sample" / "callee.py").write_text(
        CALLEE.format(compiled=f"{cache.__package__}.compiled", number=1)
    )
    assert names == {
        name: cache.sources_hash(tmp_path / "sample" / f"{name}.py") for name in ("caller", "callee")
    }


def test_code_in_a_read_only_folder_is_loaded_from_a_copy(
    write: Write, load: Load, cache: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(1)
    assert load()(1) == 20
    writable = cache._is_writable
    monkeypatch.setattr(
        cache,
        "_is_writable",
        lambda folder: not folder.is_relative_to(tmp_path / "code") and writable(folder),
    )
    outer = load()
    assert outer(1) == 20
    assert sum(outer.stats.cache_hits.values()) == 1


@pytest.mark.parametrize("package", ["trie_service", "decoder_service"])
def test_where_nothing_can_be_written_code_is_compiled_with_one_warning(package: str, tmp_path: Path) -> None:
    nowhere = tmp_path / "file"
    nowhere.touch()
    folder = tmp_path / package
    folder.mkdir()
    for name in ("__init__", "code_cache", "compiled"):
        shutil.copy(ROOT / package / f"{name}.py", folder)
    (folder / "__pycache__").touch()  # a file: not even root can write below it
    compiled = f"{package}.compiled"
    for name, text in {
        "callee": CALLEE.format(compiled=compiled, number=1),
        "caller": CALLER.format(compiled=compiled),
    }.items():
        (folder / f"{name}.py").write_text(text.replace("sample.", f"{package}."))
    run = subprocess.run(
        [sys.executable, "-c", f"from {package}.caller import outer; print(outer(1))"],
        env={"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(nowhere), "HOME": str(nowhere)},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (run.returncode, run.stdout) == (0, "20\n"), run.stderr
    assert run.stderr.count("NUMBA_CACHE_DIR") == 1
