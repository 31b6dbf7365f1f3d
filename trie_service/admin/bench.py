"""``trie-admin bench``: what the index structure costs on this machine, without a service."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from trie_service.admin.bench_text import BenchText, bench_contexts, bench_texts
from trie_service.admin.drawing import print_json
from trie_service.admin.errors import AdminError
from trie_service.admin.options import AsJson
from trie_service.admin.session import failing
from trie_service.drafting import DraftLimits, draft, draft_batch
from trie_service.trie import Trie
from trie_service.trie_arrays import Int32Array

BATCH: Final = 64  # contexts a batch
PIECE_LEN: Final = 512  # tokens that are learned at one go, as a replica does
_NUM_CONTEXTS: Final = 4096
_ROOMY_BYTES: Final = 1024  # a token, for the trie that never evicts
_SEED: Final = 20

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What is measured."""

    traces: Sequence[Path]
    num_tokens: int
    max_order: int
    max_nodes: int
    rounds: int


def bench(  # noqa: PLR0913, PLR0917 - one parameter a flag
    traces: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True, metavar="FILE...", help="Token traces (.jsonl, .jsonl.gz) or folders of them."
        ),
    ] = None,
    more: Annotated[list[Path] | None, typer.Argument(exists=True, metavar="", hidden=True)] = None,
    tokens: Annotated[int, typer.Option(min=10_000, help="Tokens stored.")] = 1_000_000,
    max_order: Annotated[int, typer.Option(min=1, max=32, help="Longest suffix matched.")] = 16,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of a draft.")] = 16,
    rounds: Annotated[int, typer.Option(min=1, help="Times that everything is measured.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Measure the index structure itself, in this process on one core, without a service.

    Stores a million tokens: half from the traces, repeated with other token ids until they are enough (without
    traces none), the rest a synthetic stream whose token frequencies follow Zipf's law. Then drafts for contexts of
    64 tokens: half end somewhere in the stored text, half are such contexts with three tokens in ten replaced, so
    they are not held as a whole. Last, learns the same text into a trie with room for half of it, which evicts
    all the while.

    Times are CPU time of the one thread, the median of the rounds; ``spread`` has the lowest and the highest.
    ``longest_pause_ms`` is the longest that one call took: a piece of text learned, eviction included, or one draft.

    Examples:

        trie-admin bench --json

        trie-admin bench --traces traces-chat.jsonl.gz traces-agent.jsonl.gz --json
    """
    plan = BenchPlan([*(traces or []), *(more or [])], tokens, max_order, nodes, rounds)
    with failing():
        figures, spread = measure(plan)
    settings = {"max_order": max_order, "tokens": tokens, "nodes": nodes, "rounds": rounds}
    if as_json:
        print_json(figures | settings | {"spread": spread})
        return
    for name, value in figures.items():
        low, high = spread[name]
        print(f"{name:28}{value:14,.2f}   {low:,.2f} to {high:,.2f}")


def measure(plan: BenchPlan) -> tuple[Figures, dict[str, list[float]]]:
    """The median of every figure over the rounds, and its lowest and highest value."""
    generator = np.random.default_rng(_SEED)
    texts = bench_texts(plan.traces, plan.num_tokens, generator)
    contexts = bench_contexts(texts, _NUM_CONTEXTS, generator)
    if not texts:
        raise AdminError("there is no text to store")
    _compile(plan, contexts)
    rounds = [_measure_once(plan, texts, contexts) for _ in range(plan.rounds)]
    values = {name: [figures[name] for figures in rounds] for name in rounds[0]}
    medians = {name: round(float(np.median(found)), 2) for name, found in values.items()}
    return medians, {name: [round(min(v), 2), round(max(v), 2)] for name, v in values.items()}


def _measure_once(plan: BenchPlan, texts: Sequence[BenchText], contexts: Sequence[Int32Array]) -> Figures:
    trie = Trie(max_order=plan.max_order, max_bytes=_ROOMY_BYTES * plan.num_tokens)
    inserts = _insert_all(trie, texts)
    limits = DraftLimits(max_nodes=plan.max_nodes)
    drafts = [_seconds(partial(draft, trie, context, limits)) for context in contexts]
    batches = [
        _seconds(partial(draft_batch, trie, contexts[start : start + BATCH], [limits] * BATCH))
        for start in range(0, len(contexts) - BATCH + 1, BATCH)
    ]
    bytes_per_token = trie.num_bytes / trie.num_tokens
    evicting = Trie(max_order=plan.max_order, max_bytes=trie.num_bytes // 2)
    evicting_inserts = _insert_all(evicting, texts)
    return {
        "insert_tokens_per_second": trie.num_tokens / sum(inserts),
        "bytes_per_token": bytes_per_token,
        "suggest_us_p50": float(np.median(drafts)) * 1e6,
        "suggest_us_p99": float(np.percentile(drafts, 99)) * 1e6,
        "batch64_ms_p50": float(np.median(batches)) * 1e3,
        "longest_pause_ms": max(*inserts, *evicting_inserts, *drafts) * 1e3,
        "evicting_insert_tokens_per_second": plan.num_tokens / sum(evicting_inserts),
    }


def _insert_all(trie: Trie, texts: Sequence[BenchText]) -> list[float]:
    """Insert the texts as the service does, in pieces; the CPU seconds of each."""
    seconds = []
    for text in texts:
        for start in range(text.context_len, len(text.tokens), PIECE_LEN):
            first = max(0, start - trie.max_order)
            piece = text.tokens[first : start + PIECE_LEN]
            seconds.append(_seconds(partial(trie.insert, piece, start - first)))
    return seconds


def _compile(plan: BenchPlan, contexts: Sequence[Int32Array]) -> None:
    """Call everything once, so that compiling is not measured."""
    trie = Trie(max_order=plan.max_order)
    trie.insert(contexts[0])
    limits = DraftLimits(max_nodes=plan.max_nodes)
    draft(trie, contexts[0], limits)
    draft_batch(trie, contexts[:1], [limits])


def _seconds(action: Callable[[], object]) -> float:
    start = time.thread_time_ns()
    action()
    return (time.thread_time_ns() - start) * 1e-9
