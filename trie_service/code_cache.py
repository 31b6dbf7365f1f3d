"""Where compiled machine code is kept between starts.

Numba notices that a function's own file has changed, but not the files of the functions that it calls. So
each module's code lies in a folder named by a hash of its source and of all sources that it imports from here:
code of other sources is never found.
"""

from __future__ import annotations

import ast
import atexit
import functools
import hashlib
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numba

_PACKAGE = Path(__file__).parent
_HASH_LEN = 16
_IN_TREE = _PACKAGE / "__pycache__" / "numba"


def folder_for(source: Path) -> Path | None:
    """A folder to load the code of a module of this package from and to write it to.

    None, after one warning a process, where none can be written.
    """
    name = f"{source.stem}-{sources_hash(source)}"
    for base in _bases():
        folder = base / name
        if _is_writable(folder):
            if base == _IN_TREE:
                _drop_others(folder, source.stem)
            return folder
        if any(folder.rglob("*.nbi")):
            return _copied(folder)
    _warn_once()
    return None


@functools.cache
def sources_hash(source: Path) -> str:
    """Names the text of a module and of all modules of its package that it imports, directly or not."""
    found, frontier = {source}, [source]
    while frontier:
        new = set(_imported(frontier.pop())) - found
        found |= new
        frontier += new
    digest = hashlib.sha256()
    for path in sorted(found):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_HASH_LEN]


@functools.cache
def _imported(source: Path) -> frozenset[Path]:
    """Sources of the same package that a source imports."""
    around = [folder for folder in source.parents if (folder / "__init__.py").is_file()]
    package = around[-1] if around else source.parent
    names = (name for node in ast.walk(ast.parse(source.read_bytes())) for name in _names(node))
    paths = (
        package.parent.joinpath(*name.split(".")).with_suffix(".py")
        for name in names
        if name.startswith(f"{package.name}.")
    )
    return frozenset(path for path in paths if path.is_file())


def _names(node: ast.AST) -> Iterator[str]:
    """Modules that a statement may import."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module), names=names):
            yield module
            yield from (f"{module}.{alias.name}" for alias in names)


def _bases() -> Iterator[Path]:
    """What NUMBA_CACHE_DIR says, beside the sources, in the user's cache."""
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR) / _PACKAGE.name
    yield _IN_TREE
    try:
        yield Path.home() / ".cache" / "draftwell" / "numba" / _PACKAGE.name
    except RuntimeError:  # this user has no home
        return


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _copied(folder: Path) -> Path | None:
    """The code of a read-only folder, for as long as this process lives: Numba loads from writable ones alone."""
    try:
        copy = _temporary() / folder.name
        shutil.copytree(folder, copy, dirs_exist_ok=True)
    except OSError:
        _warn_once()
        return None
    return copy


@functools.cache
def _temporary() -> Path:
    folder = tempfile.mkdtemp(prefix="draftwell-code-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _drop_others(folder: Path, stem: str) -> None:
    """Delete the code of sources that this package no longer has."""
    for other in folder.parent.glob(f"{stem}-{'?' * _HASH_LEN}"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "no folder for machine code can be written, so it is compiled at every start: "
        "set NUMBA_CACHE_DIR to one that can",
        RuntimeWarning,
        stacklevel=1,
    )
