"""Prompts of a benchmark, from files of one JSON object a line: ``{"id", "task", "turns": [...]}``."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from decoder_service.errors import DecoderError


class BadPrompts(DecoderError):
    """A file of prompts cannot be used; the text names it."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """One question: the first turn of what the file has."""

    name: str
    task: str
    text: str


def load_prompts(specs: Sequence[str], limit: int | None = None) -> list[BenchPrompt]:
    """Prompts of files, each ``PATH`` or ``PATH=N`` for N of its prompts; at most ``limit`` in all.

    Fewer than all are taken at even distances, so that every task of a file that is sorted by task is among them.
    """
    found = [prompt for spec in specs for prompt in _of_file(spec)]
    return _spread(found, limit)


def _of_file(spec: str) -> list[BenchPrompt]:
    path, equals, number = spec.rpartition("=")
    if not equals or not number.isdecimal():
        path, number = spec, ""
    prompts = list(_read(Path(path)))
    if not prompts:
        raise BadPrompts(f"{path} has no prompts")
    return _spread(prompts, int(number) if number else None)


def _read(path: Path) -> Iterator[BenchPrompt]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except OSError as error:
        raise BadPrompts(f"{path} cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, EOFError, zlib.error) as error:
        raise BadPrompts(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield _prompt_of(line, f"{path}, line {number}")


def _prompt_of(line: str, place: str) -> BenchPrompt:
    try:
        fields = json.loads(line)
        return BenchPrompt(str(fields["id"]), str(fields["task"]), str(fields["turns"][0]))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise BadPrompts(f"{place}: no prompt with id, task and turns: {error!r}") from error


def _spread(prompts: list[BenchPrompt], number: int | None) -> list[BenchPrompt]:
    if number is None or number >= len(prompts):
        return prompts
    return [prompts[index * len(prompts) // number] for index in range(number)]
