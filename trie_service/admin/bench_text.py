"""The text that ``trie-admin bench`` stores, and the contexts that it asks about."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Final

import numpy as np

from trie_service.admin.errors import AdminError
from trie_service.trie_arrays import Int32Array

VOCAB_SIZE: Final = 49152
CONTEXT_LEN: Final = 64  # tokens of a context that is asked about
_ZIPF_EXPONENT: Final = 1.2  # about what word frequencies of English follow
_ZIPF_LEN: Final = 2048  # tokens a synthetic sequence
_KNOWN_LEN: Final = 32  # tokens of context that an answer of a trace is learned with
_DAMAGE: Final = 0.3  # share of tokens replaced in contexts that are not held


@dataclass(frozen=True, slots=True)
class BenchText:
    """One sequence to learn, and how many of its first tokens are context."""

    tokens: Int32Array  # [n]
    context_len: int

    @property
    def num_learned(self) -> int:
        """Tokens that count."""
        return len(self.tokens) - self.context_len


def bench_texts(traces: Iterable[Path], num_tokens: int, generator: np.random.Generator) -> list[BenchText]:
    """Texts of ``num_tokens`` tokens to learn: half from traces, if there are any, half a Zipf stream.

    The traces are repeated as often as it takes, each time with other token ids, so that no text occurs twice
    that does not occur twice in a trace. Raises AdminError for files that hold no traces.
    """
    read = list(chain.from_iterable(map(_read_traces, _files(traces))))
    texts = _take(_repeated(read, generator), num_tokens // 2) if read else []
    num_left = num_tokens - sum(text.num_learned for text in texts)
    return texts + _take(_zipf(generator), num_left)


def bench_contexts(texts: list[BenchText], number: int, generator: np.random.Generator) -> list[Int32Array]:
    """Contexts to draft for, in turn one that the texts hold and one with three tokens in ten replaced."""
    contexts = []
    for index in range(number):
        tokens = texts[generator.integers(len(texts))].tokens
        end = int(generator.integers(1, len(tokens) + 1))
        context = tokens[max(0, end - CONTEXT_LEN) : end].copy()
        if index % 2 == 1:
            damaged = generator.random(len(context)) < _DAMAGE
            context[damaged] = generator.integers(0, VOCAB_SIZE, int(damaged.sum()))
        contexts.append(context)
    return contexts


def _files(traces: Iterable[Path]) -> list[Path]:
    """The files named; of a folder its traces."""
    files: list[Path] = []
    for path in traces:
        found = sorted(path.glob("traces-*.jsonl.gz")) if path.is_dir() else [path]
        if not found:
            raise AdminError(f"{path} holds no traces-*.jsonl.gz")
        files += found
    return files


def _read_traces(path: Path) -> Iterator[BenchText]:
    """The answers of a trace, each with the end of its conversation so far."""
    conversation: tuple[object, list[int]] = (None, [])
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                known = conversation[1] if row["id"] == conversation[0] else []
                context = (known + row["delta"])[-_KNOWN_LEN:]
                answer = np.array(context + row["out"], dtype=np.int32)
                yield BenchText(answer % VOCAB_SIZE, len(context))
                conversation = (row["id"], context + row["out"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AdminError(f"{path} is no trace (lines of JSON with id, delta and out): {error!r}") from error


def _repeated(texts: list[BenchText], generator: np.random.Generator) -> Iterator[BenchText]:
    for repetition in count():
        ids = np.arange(VOCAB_SIZE) if repetition == 0 else generator.permutation(VOCAB_SIZE)
        for text in texts:
            yield BenchText(ids[text.tokens].astype(np.int32), text.context_len)


def _zipf(generator: np.random.Generator) -> Iterator[BenchText]:
    while True:
        ranks = generator.zipf(_ZIPF_EXPONENT, _ZIPF_LEN)
        yield BenchText((ranks % VOCAB_SIZE).astype(np.int32), 0)


def _take(texts: Iterator[BenchText], num_tokens: int) -> list[BenchText]:
    """As many texts as hold ``num_tokens`` tokens to learn, the last cut short."""
    taken: list[BenchText] = []
    while num_tokens > 0:
        text = next(texts)
        cut = text.tokens[: text.context_len + num_tokens]
        taken.append(BenchText(cut, text.context_len))
        num_tokens -= taken[-1].num_learned
    return taken
