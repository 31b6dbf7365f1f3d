"""Flags that several commands have, and what all of them share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

DEFAULT_ADDRESS = "127.0.0.1:50052"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace of the index. [the tokenizer's, else default]"),
]
NamespaceArgument = Annotated[str, typer.Argument(metavar="NAMESPACE", help="Its name.")]
Decoder = Annotated[
    str | None,
    typer.Option(help="HOST:PORT of a decoder service, which owns the tokenizer.", metavar="ADDRESS"),
]
TokenizerFolder = Annotated[
    str | None,
    typer.Option(
        "--tokenizer", help="A model folder whose tokenizer to use, or a decoder.", metavar="FOLDER|ADDRESS"
    ),
]


@dataclass(frozen=True, slots=True)
class Settings:
    """What all commands share."""

    trie: str  # address


def one_tokenizer(decoder: str | None, tokenizer: str | None) -> str | None:
    """The folder or address that the flags name; raise BadParameter where both are given."""
    if decoder is not None and tokenizer is not None:
        raise typer.BadParameter("--decoder and --tokenizer name the same thing: give one of them")
    return decoder if decoder is not None else tokenizer
