"""The commands that change an index: create, limits, copy, delete, forget."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from draftwell.trie.v1 import trie_pb2 as pb

from trie_service.admin.asking import DEFAULT_NAMESPACE
from trie_service.admin.connection import CALL_TIMEOUT_S, LONG_CALL_TIMEOUT_S
from trie_service.admin.drawing import limits_line, namespace_json, print_json
from trie_service.admin.options import AsJson, Decoder, NamespaceArgument, TokenizerFolder, one_tokenizer
from trie_service.admin.quantities import bytes_in, seconds_in
from trie_service.admin.session import services, trie_service


def _size(text: str) -> int:
    try:
        return bytes_in(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _time(text: str) -> int:
    try:
        return seconds_in(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


MaxBytes = Annotated[
    int | None,
    typer.Option(parser=_size, metavar="SIZE", help="Memory at each replica, for example 256MiB."),
]
MaxRate = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Tokens learned a second at each replica.")
]
TextTtl = Annotated[
    int | None,
    typer.Option(parser=_time, metavar="TIME", help="Text older is forgotten, for example 30d."),
]


def create(  # noqa: PLR0913, PLR0917 - one parameter a flag
    context: typer.Context,
    namespace: NamespaceArgument,
    decoder: Decoder = None,
    tokenizer: TokenizerFolder = None,
    fingerprint: Annotated[str, typer.Option(help="Of the tokenizer, where none is named.")] = "",
    vocab_size: Annotated[int, typer.Option(min=0, help="Token ids are below this.")] = 0,
    max_bytes: MaxBytes = None,
    max_tokens_per_second: MaxRate = None,
    text_ttl: TextTtl = None,
    as_json: AsJson = False,
) -> None:
    """Create a namespace for a tokenizer's tokens. Creating it again with the same one succeeds.

    Examples:

        trie-admin create support --decoder 127.0.0.1:50051

        trie-admin create code --tokenizer ./model --max-bytes 2GiB --text-ttl 30d

        trie-admin create raw --fingerprint my-tokenizer-v2 --vocab-size 32000
    """
    named = one_tokenizer(decoder, tokenizer)
    if named is None and not (fingerprint and vocab_size):
        raise typer.BadParameter("name --decoder or --tokenizer, or give --fingerprint and --vocab-size")
    limits = _limits(pb.NamespaceLimits(), max_bytes, max_tokens_per_second, text_ttl)
    with services(context, named) as (trie, vocabulary):
        known = vocabulary.vocabulary() if vocabulary else None
        ref = pb.NamespaceRef(name=namespace, fingerprint=known.fingerprint if known else fingerprint)
        request = pb.CreateNamespaceRequest(
            namespace=ref, vocab_size=known.size if known else vocab_size, limits=limits
        )
        made = trie.CreateNamespace(request, timeout=CALL_TIMEOUT_S).namespace
    if limits.ByteSize() and made.limits != limits:
        text = f"{namespace} exists with other limits: `trie-admin limits` changes them"
        typer.echo(f"trie-admin: {text}", err=True)
    _show(made, f"{namespace} is ready, fingerprint {made.fingerprint}", as_json=as_json)


def limits(
    context: typer.Context,
    namespace: NamespaceArgument,
    max_bytes: MaxBytes = None,
    max_tokens_per_second: MaxRate = None,
    text_ttl: TextTtl = None,
    as_json: AsJson = False,
) -> None:
    """Show what a namespace may hold and take, or change what is given; 0 goes back to the default.

    Examples:

        trie-admin limits support

        trie-admin limits support --max-bytes 512MiB --text-ttl 30d

        trie-admin limits support --max-tokens-per-second 0
    """
    with trie_service(context) as trie:
        found = trie.GetNamespace(pb.GetNamespaceRequest(name=namespace), timeout=CALL_TIMEOUT_S).namespace
        if (max_bytes, max_tokens_per_second, text_ttl) != (None, None, None):
            wanted = _limits(found.limits, max_bytes, max_tokens_per_second, text_ttl)
            request = pb.UpdateNamespaceRequest(name=namespace, limits=wanted)
            found = trie.UpdateNamespace(request, timeout=CALL_TIMEOUT_S).namespace
    _show(found, limits_line(found), as_json=as_json)


def copy(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The namespace to copy.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The new one; must not exist.")],
    as_json: AsJson = False,
) -> None:
    """Make a new namespace that holds what another one holds.

    Examples:

        trie-admin copy support support-before-cleanup
    """
    with trie_service(context) as trie:
        request = pb.CopyNamespaceRequest(source=source, target=target)
        made = trie.CopyNamespace(request, timeout=LONG_CALL_TIMEOUT_S).namespace
    _show(made, f"{source} is copied to {target}, {made.stats.num_tokens:,} tokens", as_json=as_json)


def delete(
    context: typer.Context,
    namespace: NamespaceArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a namespace from the store and from the memory of every replica, for good.

    Examples:

        trie-admin delete old-experiment

        trie-admin delete old-experiment --yes
    """
    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter(f"this deletes {namespace!r} for good and nobody can be asked: give --yes")
    if not yes and not typer.confirm(f"Delete {namespace!r} and all that it learned, for good?", err=True):
        typer.echo("trie-admin: nothing was deleted", err=True)
        raise typer.Exit(1)
    with trie_service(context) as trie:
        trie.DeleteNamespace(pb.DeleteNamespaceRequest(name=namespace), timeout=CALL_TIMEOUT_S)
    if as_json:
        print_json({"deleted": namespace})
    else:
        print(f"{namespace} is deleted")


def forget(
    context: typer.Context,
    sequence_id: Annotated[str, typer.Argument(metavar="SEQUENCE_ID", help="As it was given to Learn.")],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Where it was learned.")
    ] = DEFAULT_NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Take back what one sequence taught, on every replica.

    Examples:

        trie-admin forget 7f9c24e8 -n support
    """
    with trie_service(context) as trie:
        ref = pb.NamespaceRef(name=namespace)
        request = pb.ForgetRequest(namespace=ref, sequence_id=sequence_id)
        num_tokens = trie.Forget(request, timeout=CALL_TIMEOUT_S).num_tokens
    if as_json:
        print_json({"namespace": namespace, "sequence_id": sequence_id, "num_tokens": num_tokens})
    else:
        print(f"{namespace}: {num_tokens:,} tokens of {sequence_id} are forgotten")


def _limits(
    now: pb.NamespaceLimits, max_bytes: int | None, max_tokens_per_second: int | None, text_ttl: int | None
) -> pb.NamespaceLimits:
    """The limits of now with what is given in their place."""
    wanted = pb.NamespaceLimits()
    wanted.CopyFrom(now)
    given = {
        "max_bytes": max_bytes,
        "max_tokens_per_second": max_tokens_per_second,
        "text_ttl_seconds": text_ttl,
    }
    for name, value in given.items():
        if value is not None:
            setattr(wanted, name, value)
    return wanted


def _show(namespace: pb.Namespace, line: str, *, as_json: bool) -> None:
    if as_json:
        print_json(namespace_json(namespace))
    else:
        print(line)
