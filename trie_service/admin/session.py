"""What a command needs while it runs: connections, and failures that end it with a message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import typer
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub

from trie_service.admin.connection import decoder_at, trie_at
from trie_service.admin.errors import AdminError
from trie_service.admin.tokenizer import RemoteTokenizer


@contextmanager
def services(
    context: typer.Context, decoder: str | None
) -> Iterator[tuple[TrieServiceStub, RemoteTokenizer | None]]:
    """The trie service and, where an address is given, a decoder's tokenizer; failures end the command."""
    with failing(), ExitStack() as stack:
        tokenizer = RemoteTokenizer(stack.enter_context(decoder_at(decoder))) if decoder else None
        yield stack.enter_context(trie_at(context.obj.trie)), tokenizer


@contextmanager
def failing() -> Iterator[None]:
    """End the command with a message and status 1 where an AdminError arrives here."""
    try:
        yield
    except AdminError as error:
        typer.echo(f"trie-admin: {error}", err=True)
        raise typer.Exit(1) from error
