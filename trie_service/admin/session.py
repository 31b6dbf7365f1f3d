"""What a command needs while it runs: connections, and failures that end it with a message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import typer
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub

from trie_service.admin.connection import decoder_at, trie_at
from trie_service.admin.errors import AdminError, UsageError
from trie_service.admin.folder_tokenizer import FolderTokenizer
from trie_service.admin.tokenizer import RemoteTokenizer, Tokenizer

INTERRUPTED = 130


@contextmanager
def services(
    context: typer.Context, tokenizer: str | None = None
) -> Iterator[tuple[TrieServiceStub, Tokenizer | None]]:
    """The trie service and, where a folder or a decoder is named, a tokenizer; failures end the command."""
    with trie_service(context) as trie, failing(), ExitStack() as stack:
        yield trie, tokenizer_at(tokenizer, stack) if tokenizer else None


@contextmanager
def trie_service(context: typer.Context) -> Iterator[TrieServiceStub]:
    """The trie service; failures end the command."""
    with failing(), trie_at(context.obj.trie) as trie:
        yield trie


@contextmanager
def failing() -> Iterator[None]:
    """End the command with a message and its status where an AdminError arrives here."""
    try:
        yield
    except AdminError as error:
        typer.echo(f"trie-admin: {error}", err=True)
        raise typer.Exit(error.exit_status) from error
    except KeyboardInterrupt as error:
        typer.echo("trie-admin: interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from error


def tokenizer_at(place: str, stack: ExitStack) -> Tokenizer:
    """The tokenizer of a folder, or of the decoder at an address; raise AdminError."""
    if Path(place).is_dir():
        return FolderTokenizer(Path(place))
    if "/" in place or ":" not in place:
        raise UsageError(f"{place}: neither a folder nor HOST:PORT of a decoder")
    return RemoteTokenizer(stack.enter_context(decoder_at(place)))
