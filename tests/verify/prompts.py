"""The prompts of the runs: those beside this module, or a file's."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decoder_service.forest import Int32Array
from decoder_service.model import LoadedModel
from decoder_service.tokens import Tokenizer

OWN_PROMPTS = Path(__file__).with_name("prompts.json")


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a user asks."""

    name: str
    text: str


def load_prompts(path: Path = OWN_PROMPTS) -> list[Prompt]:
    """Prompts of a JSON list or of JSON lines, gzipped or not: the first of each entry's ``turns``."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    entries = json.loads(text) if text.lstrip().startswith("[") else map(json.loads, text.splitlines())
    return list(_prompts(entries))


def spread(prompts: list[Prompt], limit: int | None) -> list[Prompt]:
    """At most ``limit`` prompts, evenly from all of them, so that every kind is among them."""
    if limit is None or limit >= len(prompts):
        return prompts
    return [prompts[place * len(prompts) // limit] for place in range(limit)]


def encode(loaded: LoadedModel, prompt: Prompt) -> Int32Array:
    """The prompt as a chat's first turn."""
    return Tokenizer(loaded.tokenizer).encode_chat([("user", prompt.text)])


def _prompts(entries: Iterable[dict[str, Any]]) -> Iterator[Prompt]:
    for number, entry in enumerate(entries):
        yield Prompt(str(entry.get("name") or entry.get("id") or number), entry["turns"][0])
