"""The commands that show what an index holds: namespaces, stats, top."""

from __future__ import annotations

from typing import Annotated

import typer
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub
from rich.console import Console

from trie_service.admin.asking import pieces_of
from trie_service.admin.connection import CALL_TIMEOUT_S
from trie_service.admin.drawing import (
    namespace_json,
    namespaces_view,
    print_json,
    sample_json,
    sample_view,
    top_json,
    top_table,
)
from trie_service.admin.options import AsJson, Decoder, NamespaceArgument, TokenizerFolder, one_tokenizer
from trie_service.admin.sampling import Sample, samples
from trie_service.admin.session import services, trie_service
from trie_service.admin.watching import show_live


def namespaces(context: typer.Context, as_json: AsJson = False) -> None:
    """List the namespaces with their statistics.

    Examples:

        trie-admin namespaces

        trie-admin namespaces --json
    """
    with trie_service(context) as trie:
        found = list(trie.ListNamespaces(pb.ListNamespacesRequest(), timeout=CALL_TIMEOUT_S).namespaces)
    if as_json:
        print_json([namespace_json(namespace) for namespace in found])
    else:
        Console().print(namespaces_view(found))


def stats(
    context: typer.Context,
    namespace: Annotated[str | None, typer.Argument(help="One namespace; all without it.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again and again, with rates, until Ctrl-C.")
    ] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    count: Annotated[int | None, typer.Option(min=1, help="With --watch: end after so many looks.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the replica holds and how it fares.

    With --watch and --json each look is one line of JSON.

    Examples:

        trie-admin stats

        trie-admin stats support --json

        trie-admin --trie 10.0.0.7:50052 stats --watch --interval 5
    """
    with trie_service(context) as trie:
        looks = samples(trie, namespace, interval, count if watch else 1)
        if watch and not as_json:
            show_live(looks)
            return
        for sample in looks:
            _show(sample, as_json=as_json, compact=watch)


def top(
    context: typer.Context,
    namespace: NamespaceArgument,
    limit: Annotated[int, typer.Option(min=1, help="Most texts to show.")] = 20,
    decoder: Decoder = None,
    tokenizer: TokenizerFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show what the replica drafts most from a namespace; as text where a tokenizer is named.

    Examples:

        trie-admin top support --decoder 127.0.0.1:50051

        trie-admin top support --limit 5 --json
    """
    with services(context, one_tokenizer(decoder, tokenizer)) as (trie, vocabulary):
        found = _top(trie, namespace, limit)
        texts = [("".join(pieces_of(vocabulary, each.tokens)) if vocabulary else "") for each in found]
        contexts = [("".join(pieces_of(vocabulary, each.context)) if vocabulary else "") for each in found]
    if as_json:
        print_json(top_json(found, contexts, texts))
    else:
        Console().print(top_table(found, contexts, texts))


def _top(trie: TrieServiceStub, namespace: str, limit: int) -> list[pb.TopDraft]:
    request = pb.GetTopDraftsRequest(name=namespace, limit=limit)
    return list(trie.GetTopDrafts(request, timeout=CALL_TIMEOUT_S).drafts)


def _show(sample: Sample, *, as_json: bool, compact: bool) -> None:
    if as_json:
        print_json(sample_json(sample), compact=compact)
    else:
        Console().print(sample_view(sample))
