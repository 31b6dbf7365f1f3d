"""The command line of ``trie-admin``. Exit status: 0 done, 1 failed, 2 wrong usage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from trie_service.admin.asking import Question, ask_index, namespace_for, vocabulary_ref
from trie_service.admin.connection import CALL_TIMEOUT_S, decoder_at, trie_at
from trie_service.admin.corpus import read_documents
from trie_service.admin.drawing import (
    namespace_json,
    namespace_table,
    print_json,
    suggestion_json,
    suggestion_tree,
)
from trie_service.admin.errors import AdminError
from trie_service.admin.tokenizer import RemoteTokenizer
from trie_service.admin.warming import Warmer, WarmReport

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Look at a draft index, ask it, warm it.",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", help="Namespace of the index. [the decoder's with --decoder, else default]"
    ),
]
Decoder = Annotated[
    str | None,
    typer.Option(help="HOST:PORT of a decoder service, which owns the tokenizer.", metavar="ADDRESS"),
]


@dataclass(frozen=True, slots=True)
class Settings:
    """What all commands share."""

    trie: str  # address


@app.callback()
def settings(
    context: typer.Context,
    trie: Annotated[
        str, typer.Option(help="HOST:PORT of a trie service.", metavar="ADDRESS")
    ] = "127.0.0.1:50052",
) -> None:
    """Keep what all commands share."""
    context.obj = Settings(trie)


@app.command(epilog="Example: trie-admin namespaces")
def namespaces(context: typer.Context, as_json: AsJson = False) -> None:
    """List the namespaces with their statistics."""
    with _services(context, decoder=None) as (trie, _):
        found = _namespaces(trie, None)
    _show_namespaces(found, as_json=as_json)


@app.command(epilog="Example: trie-admin stats support-chat --json")
def stats(
    context: typer.Context,
    namespace: Annotated[str | None, typer.Argument(help="One namespace; all without it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the replica holds and how it fares."""
    with _services(context, decoder=None) as (trie, _):
        info = trie.GetServerInfo(pb.GetServerInfoRequest(), timeout=CALL_TIMEOUT_S)
        found = _namespaces(trie, namespace)
    state = pb.ServingState.Name(info.state).removeprefix("SERVING_STATE_").lower()
    server = {"version": info.version, "state": state, "store": info.store, "uptime_s": info.uptime_seconds}
    if as_json:
        print_json({"server": server, "namespaces": [namespace_json(one) for one in found]})
        return
    print(f"trie-service {info.version}, {state}, store {info.store}, up {info.uptime_seconds:.0f} s")
    _show_namespaces(found, as_json=False)


@app.command(epilog='Example: trie-admin suggest "def main(" -n code --decoder 127.0.0.1:50051')
def suggest(  # noqa: PLR0913, PLR0917 - one parameter a flag
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="The text to continue; needs --decoder.")] = None,
    namespace: Namespace = None,
    decoder: Decoder = None,
    tokens: Annotated[
        str | None, typer.Option(help="Token ids to continue instead of a text, for example 1,2,3.")
    ] = None,
    max_nodes: Annotated[int, typer.Option(min=0, help="Most nodes; 0: the server's default.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Draw the draft tree that the index has for a context."""
    if (text is None) == (tokens is None) or (text is not None and decoder is None):
        raise typer.BadParameter("give a TEXT with --decoder, or --tokens")
    asked = text if text is not None else _token_ids(tokens or "")
    with _services(context, decoder) as (trie, tokenizer):
        question = Question(namespace_for(tokenizer, namespace), asked, max_nodes)
        suggestion = ask_index(trie, tokenizer, question)
    if as_json:
        print_json(suggestion_json(suggestion))
    else:
        Console().print(suggestion_tree(text or tokens or "", suggestion))


@app.command(epilog="Example: trie-admin warm answers.jsonl -n support --decoder 127.0.0.1:50051")
def warm(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            exists=True,
            dir_okay=False,
            help='.txt, or .jsonl with "text", "messages" or "tokens" in each line.',
            metavar="FILE",
        ),
    ],
    namespace: Namespace = None,
    decoder: Decoder = None,
    fingerprint: Annotated[
        str, typer.Option(help="Without --decoder: create the namespace with it if there is none.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Let the index learn files, for example the answers of last month."""
    with _services(context, decoder) as (trie, tokenizer):
        name = namespace_for(tokenizer, namespace)
        ref = vocabulary_ref(trie, tokenizer, name) if tokenizer else None
        warmer = Warmer(trie, ref or pb.NamespaceRef(name=name, fingerprint=fingerprint), tokenizer)
        report = _warm_with_progress(warmer, files)
    if as_json:
        print_json(asdict(report) | {"tokens_per_second": report.tokens_per_second})
    else:
        print(
            f"{name}: learned {report.num_tokens:,} tokens in {report.num_sequences:,} sequences, "
            f"{report.tokens_per_second:,.0f} tokens/s"
        )


def main() -> None:
    """Entry point."""
    app()


def _warm_with_progress(warmer: Warmer, files: Sequence[Path]) -> WarmReport:
    columns = (TextColumn("learning"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("learning", total=sum(path.stat().st_size for path in files))
        documents = chain.from_iterable(map(read_documents, files))
        return warmer.warm(documents, lambda num_bytes: progress.advance(task, num_bytes))


def _namespaces(trie: TrieServiceStub, name: str | None) -> list[pb.Namespace]:
    if name is None:
        return list(trie.ListNamespaces(pb.ListNamespacesRequest(), timeout=CALL_TIMEOUT_S).namespaces)
    return [trie.GetNamespace(pb.GetNamespaceRequest(name=name), timeout=CALL_TIMEOUT_S).namespace]


def _show_namespaces(found: Sequence[pb.Namespace], *, as_json: bool) -> None:
    if as_json:
        print_json([namespace_json(namespace) for namespace in found])
    elif found:
        Console().print(namespace_table(found))
    else:
        print("no namespaces yet")


def _token_ids(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--tokens {text!r} is not a list of numbers such as 1,2,3") from error


@contextmanager
def _services(
    context: typer.Context, decoder: str | None
) -> Iterator[tuple[TrieServiceStub, RemoteTokenizer | None]]:
    """The trie service and, where an address is given, a decoder's tokenizer; failures end the command."""
    with _failing(), ExitStack() as stack:
        tokenizer = RemoteTokenizer(stack.enter_context(decoder_at(decoder))) if decoder else None
        yield stack.enter_context(trie_at(context.obj.trie)), tokenizer


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except AdminError as error:
        typer.echo(f"trie-admin: {error}", err=True)
        raise typer.Exit(1) from error
