"""The command that lets an index learn files: warm."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from trie_service.admin.connection import trie_at
from trie_service.admin.corpus.sources import KINDS
from trie_service.admin.drawing import print_json
from trie_service.admin.options import AsJson, Decoder, Namespace, TokenizerFolder, one_tokenizer
from trie_service.admin.session import failing, tokenizer_at
from trie_service.admin.warm_run import WarmOptions, WarmReport, run_warm


def warm(  # noqa: PLR0913, PLR0917 - one parameter a flag
    context: typer.Context,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files, globs, folders, - for standard input.")
    ],
    namespace: Namespace = None,
    decoder: Decoder = None,
    tokenizer: TokenizerFolder = None,
    fingerprint: Annotated[
        str, typer.Option(help="Without a tokenizer: create the namespace with it if there is none.")
    ] = "",
    file_format: Annotated[
        str,
        typer.Option("--format", help=f"What every file holds: {', '.join(KINDS)}. Default: by its name."),
    ] = "",
    field: Annotated[str, typer.Option(help="The field or column that holds the text.")] = "text",
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many documents.")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Keep the place in this file, and go on from it.", metavar="FILE"),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="End at the first bad line.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return once the replica drafts from all of it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read, tokenize and count; send nothing.")
    ] = False,
    list_ids: Annotated[
        bool, typer.Option("--list-ids", help="Print id and place of every sequence, for forget.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let the index learn files, for example the answers of last month.

    Reads .txt and .jsonl, also as .gz and .zst, .parquet and .npy. A line of JSON, or a row, has "text",
    "messages" (a conversation) or "tokens" (token ids, perhaps with "context_len"); or "delta" and "out",
    an answer of a trace. Learning the same file again teaches nothing twice.

    Examples:

        trie-admin warm answers.jsonl -n support --decoder 127.0.0.1:50051

        trie-admin warm 'logs/**/*.jsonl.zst' docs/ -n support --tokenizer ./model --resume place.json

        zcat tokens.jsonl.gz | trie-admin warm - -n support

        trie-admin warm corpus/ --tokenizer ./model --dry-run --json
    """
    named = one_tokenizer(decoder, tokenizer)
    if file_format and file_format not in KINDS:
        raise typer.BadParameter(f"--format {file_format!r} is none of {', '.join(KINDS)}")
    if list_ids and as_json:
        raise typer.BadParameter("--list-ids and --json both print to standard output: give one of them")
    options = WarmOptions(
        tuple(files), file_format, field, namespace, fingerprint, limit, resume, strict, wait, list_ids
    )
    with failing():
        report = _run(context.obj.trie, named, options, dry_run=dry_run)
    if as_json:
        print_json(report.as_json() | {"dry_run": dry_run})
    else:
        words = report.in_words("would learn" if dry_run else "learned")
        typer.echo(words, err=list_ids)


def _run(address: str, tokenizer: str | None, options: WarmOptions, *, dry_run: bool) -> WarmReport:
    with ExitStack() as stack:
        vocabulary = tokenizer_at(tokenizer, stack) if tokenizer else None
        trie = None if dry_run else stack.enter_context(trie_at(address))
        return run_warm(options, vocabulary, trie, lambda text: typer.echo(f"trie-admin: {text}", err=True))
