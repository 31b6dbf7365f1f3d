"""The commands that move a namespace through a file: export, import."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub

from trie_service.admin.asking import DEFAULT_NAMESPACE
from trie_service.admin.connection import LONG_CALL_TIMEOUT_S
from trie_service.admin.drawing import namespace_json, print_json
from trie_service.admin.errors import AdminError
from trie_service.admin.meter import Meter, metered
from trie_service.admin.options import AsJson
from trie_service.admin.session import trie_service

PIECE_BYTES = 1 << 20


def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(dir_okay=False, metavar="FILE", help="Where to write it.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="What to write.")] = DEFAULT_NAMESPACE,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a namespace to one file: versioned, checksummed, whole or not at all.

    Examples:

        trie-admin export support.dwns -n support

        trie-admin export /backup/support.dwns -n support --force --json
    """
    if file.exists() and not force:
        raise typer.BadParameter(f"{file} exists: --force replaces it")
    with trie_service(context) as trie:
        num_bytes = _export(trie, namespace, file)
    if as_json:
        print_json({"namespace": namespace, "file": str(file), "num_bytes": num_bytes})
    else:
        print(f"{namespace}: {num_bytes:,} bytes in {file}")


def import_(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, metavar="FILE", help="What export has written.")
    ],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Name of the new namespace. [the one in the file]")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Make a new namespace from a file that export has written.

    Examples:

        trie-admin import support.dwns

        trie-admin import support.dwns -n support-restored
    """
    with trie_service(context) as trie:
        made = _import(trie, namespace, file)
    if as_json:
        print_json(namespace_json(made))
    else:
        print(f"{made.name}: {made.stats.num_tokens:,} tokens from {file}")


def _export(trie: TrieServiceStub, namespace: str, path: Path) -> int:
    """Write the file; return its bytes. Raises AdminError, grpc.RpcError and leaves no half file then."""
    request = pb.ExportNamespaceRequest(name=namespace)
    pieces = iter(trie.ExportNamespace(request, timeout=LONG_CALL_TIMEOUT_S))
    first = next(pieces, None)
    if first is None:
        raise AdminError(f"{namespace}: the service sent nothing")
    with _whole_file(path) as file, metered("exporting", first.total_bytes) as meter:
        num_bytes = file.write(first.data)
        for piece in pieces:
            num_bytes += file.write(piece.data)
            meter.update(num_bytes)
        if num_bytes != first.total_bytes:
            raise AdminError(f"{namespace}: {num_bytes:,} bytes came of {first.total_bytes:,}: try again")
    return num_bytes


@contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that appears under its name once it is complete; raise AdminError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise AdminError(f"{path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _import(trie: TrieServiceStub, namespace: str, path: Path) -> pb.Namespace:
    try:
        with path.open("rb") as file, metered("importing", path.stat().st_size) as meter:
            pieces = _pieces(file, namespace, meter)
            return trie.ImportNamespace(pieces, timeout=LONG_CALL_TIMEOUT_S).namespace
    except OSError as error:
        raise AdminError(f"{path}: {error.strerror or error}") from error


def _pieces(file: BinaryIO, namespace: str, meter: Meter) -> Iterator[pb.ImportNamespaceRequest]:
    """The file in pieces, at least one; the name goes with the first."""
    num_bytes = 0
    name = namespace
    while (data := file.read(PIECE_BYTES)) or not num_bytes:
        yield pb.ImportNamespaceRequest(name=name, data=data)
        if not data:
            return
        name = ""
        num_bytes += len(data)
        meter.update(num_bytes)
