"""The command that lets an index learn files: warm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from draftwell.trie.v1 import trie_pb2 as pb
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from trie_service.admin.asking import namespace_for, vocabulary_ref
from trie_service.admin.corpus import read_documents
from trie_service.admin.drawing import print_json
from trie_service.admin.options import AsJson, Decoder, Namespace
from trie_service.admin.session import services
from trie_service.admin.warming import Warmer, WarmReport


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
    with services(context, decoder) as (trie, tokenizer):
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


def _warm_with_progress(warmer: Warmer, files: Sequence[Path]) -> WarmReport:
    columns = (TextColumn("learning"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("learning", total=sum(path.stat().st_size for path in files))
        documents = chain.from_iterable(map(read_documents, files))
        return warmer.warm(documents, lambda num_bytes: progress.advance(task, num_bytes))
