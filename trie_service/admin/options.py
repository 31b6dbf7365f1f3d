"""Flags that several commands have, and what all of them share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

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
