"""Statistics and draft trees, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from draftwell.trie.v1 import trie_pb2 as pb
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from trie_service.admin.asking import Suggestion
from trie_service.admin.sampling import Rates, Sample

Json = dict[str, Any]

SHOWN_CONTEXT_TOKENS = 8


def print_json(value: object, *, compact: bool = False) -> None:
    """Print for programs, compact on one line."""
    print(json.dumps(value, indent=None if compact else 2, ensure_ascii=False), flush=True)


def namespace_json(namespace: pb.Namespace) -> Json:
    """A namespace, its limits and its statistics; numbers stay numbers."""
    shown = {name: getattr(namespace, name) for name in ("name", "fingerprint", "vocab_size")}
    return shown | {"limits": _fields(namespace.limits), "stats": _fields(namespace.stats)}


def sample_json(sample: Sample) -> Json:
    """One look at a replica; with rates where there was a look before."""
    namespaces = [
        namespace_json(each)
        | ({"rates": asdict(sample.rates[each.name])} if each.name in sample.rates else {})
        for each in sample.namespaces
    ]
    return {"server": _server_json(sample.server), "namespaces": namespaces}


def sample_view(sample: Sample) -> RenderableType:
    """One look at a replica for people."""
    info = sample.server
    line = f"trie-service {info.version}, {_state(info)}, store {info.store}, up {info.uptime_seconds:.0f} s"
    return Group(Text(line), namespaces_view(sample.namespaces, sample.rates))


def namespaces_view(
    namespaces: Sequence[pb.Namespace], rates: dict[str, Rates] | None = None
) -> RenderableType:
    """One row a namespace."""
    if not namespaces:
        return Text("no namespaces yet")
    table = _table("namespace", "fingerprint")
    names_len = max(len(each.name) for each in namespaces)
    table.columns[0].min_width, table.columns[0].no_wrap = names_len, True
    rate_titles = ("learned/s", "lookups/s", "hits now") if rates else ()
    numbers = ("sequences", "tokens", "nodes", "MiB", "lookups", "hit rate", "pending", "lag", "snapshot")
    for title in (*numbers, *rate_titles):
        table.add_column(title, justify="right")
    for each in namespaces:
        extra = _rate_cells(rates.get(each.name)) if rates else []
        names = (escape(each.name), escape(_shortened(each.fingerprint)))
        table.add_row(*names, *_cells(each.stats), *extra)
    return table


def limits_line(namespace: pb.Namespace) -> str:
    """What a namespace may hold and take."""
    limits = namespace.limits
    size = f"{limits.max_bytes / 2**20:,.0f} MiB" if limits.max_bytes else "the service's default"
    rate = f"{limits.max_tokens_per_second:,}" if limits.max_tokens_per_second else "the service's default"
    ttl = f"{limits.text_ttl_seconds:,} s" if limits.text_ttl_seconds else "unlimited"
    return f"{namespace.name}: memory {size}, tokens learned a second {rate}, life of text {ttl}"


def suggestion_json(suggestion: Suggestion) -> Json:
    """A draft with one object a node."""
    draft = suggestion.draft
    columns = {
        "token": draft.tokens,
        "piece": suggestion.pieces,
        "parent": draft.parents,
        "match_order": draft.match_orders,
        "count": draft.counts,
        "total": draft.totals,
        "probability": draft.probabilities,
    }
    nodes = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"context": list(suggestion.context), "nodes": nodes}


def suggestion_tree(title: str, suggestion: Suggestion) -> Tree:
    """A draft as a tree under its context."""
    draft = suggestion.draft
    root = Tree(f"[bold]{escape(title)}[/bold]" + ("" if draft.tokens else " [dim]nothing matched[/dim]"))
    branches: list[Tree] = []
    for node, parent in enumerate(draft.parents):
        above = root if parent < 0 else branches[parent]
        branches.append(above.add(_label(draft, node, suggestion.pieces[node])))
    return root


def top_json(drafts: Sequence[pb.TopDraft], contexts: Sequence[str], texts: Sequence[str]) -> list[Json]:
    """One object a draft; texts are empty where no tokenizer was named."""
    return [
        {
            "num_drafts": draft.num_drafts,
            "context": list(draft.context),
            "tokens": list(draft.tokens),
            "context_text": context,
            "text": text,
        }
        for draft, context, text in zip(drafts, contexts, texts, strict=True)
    ]


def top_table(drafts: Sequence[pb.TopDraft], contexts: Sequence[str], texts: Sequence[str]) -> RenderableType:
    """One row a draft, the most frequent first."""
    if not drafts:
        return Text("nothing was drafted yet")
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("drafts", justify="right")
    table.add_column("after")
    table.add_column("likeliest")
    for draft, context, text in zip(drafts, contexts, texts, strict=True):
        newest = draft.context[-SHOWN_CONTEXT_TOKENS:]
        after = escape(repr(context)) if context else _ids(newest)
        table.add_row(f"{draft.num_drafts:,}", after, escape(repr(text)) if text else _ids(draft.tokens))
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def _ids(tokens: Sequence[int]) -> str:
    return " ".join(map(str, tokens))


def _label(draft: pb.DraftTree, node: int, piece: str) -> str:
    probability = draft.probabilities[node]
    colour = "green" if probability >= 0.5 else "yellow" if probability >= 0.1 else "dim"
    evidence = f"order {draft.match_orders[node]}, {draft.counts[node]} of {draft.totals[node]}"
    return f"[{colour}]{escape(repr(piece))}[/{colour}] {probability:.2f} [dim]{evidence}[/dim]"


def _cells(stats: pb.NamespaceStats) -> list[str]:
    snapshot = f"{stats.snapshot_age_seconds:,.0f} s" if stats.HasField("snapshot_age_seconds") else "-"
    return [
        *(f"{count:,}" for count in (stats.num_sequences, stats.num_tokens, stats.num_nodes)),
        f"{stats.num_bytes / 2**20:.1f}",
        f"{stats.num_lookups:,}",
        _share(stats.num_hits / stats.num_lookups if stats.num_lookups else None),
        f"{stats.num_pending:,}",
        f"{1000 * stats.replication_lag_seconds:,.0f} ms",
        snapshot,
    ]


def _rate_cells(rates: Rates | None) -> list[str]:
    if rates is None:
        return ["-", "-", "-"]
    return [f"{rates.tokens_per_second:,.0f}", f"{rates.lookups_per_second:,.0f}", _share(rates.hit_rate)]


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _server_json(info: pb.GetServerInfoResponse) -> Json:
    return {
        "version": info.version,
        "state": _state(info),
        "store": info.store,
        "uptime_s": info.uptime_seconds,
    }


def _state(info: pb.GetServerInfoResponse) -> str:
    return pb.ServingState.Name(info.state).removeprefix("SERVING_STATE_").lower()


def _fields(message: pb.NamespaceStats | pb.NamespaceLimits) -> Json:
    """All fields of a flat message; None for an optional one that is not set."""
    return {
        field.name: None
        if field.has_presence and not message.HasField(field.name)
        else getattr(message, field.name)
        for field in message.DESCRIPTOR.fields
    }


def _shortened(text: str) -> str:
    return text if len(text) <= 20 else f"{text[:19]}…"
