"""Draft trees and statistics, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from draftwell.trie.v1 import trie_pb2 as pb
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from trie_service.admin.asking import Suggestion

Json = dict[str, Any]


def namespace_json(namespace: pb.Namespace) -> Json:
    """A namespace and its statistics; numbers stay numbers."""
    shown = {name: getattr(namespace, name) for name in ("name", "fingerprint", "vocab_size")}
    return shown | {"stats": _stats(namespace)}


def namespace_table(namespaces: Sequence[pb.Namespace]) -> Table:
    """One row a namespace."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(
        "namespace", no_wrap=True, overflow="fold", min_width=max(len(each.name) for each in namespaces)
    )
    table.add_column("fingerprint")
    for title in ("sequences", "tokens", "nodes", "MiB", "lookups", "hit rate", "pending"):
        table.add_column(title, justify="right")
    for namespace in namespaces:
        table.add_row(
            escape(namespace.name), escape(_shortened(namespace.fingerprint)), *_cells(namespace.stats)
        )
    return table


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


def print_json(value: object) -> None:
    """Print for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _label(draft: pb.DraftTree, node: int, piece: str) -> str:
    probability = draft.probabilities[node]
    colour = "green" if probability >= 0.5 else "yellow" if probability >= 0.1 else "dim"
    evidence = f"order {draft.match_orders[node]}, {draft.counts[node]} of {draft.totals[node]}"
    return f"[{colour}]{escape(repr(piece))}[/{colour}] {probability:.2f} [dim]{evidence}[/dim]"


def _cells(stats: pb.NamespaceStats) -> list[str]:
    rate = f"{stats.num_hits / stats.num_lookups:.0%}" if stats.num_lookups else "-"
    counts = (stats.num_sequences, stats.num_tokens, stats.num_nodes)
    size = f"{stats.num_bytes / 2**20:.1f}"
    return [
        *(f"{count:,}" for count in counts),
        size,
        f"{stats.num_lookups:,}",
        rate,
        f"{stats.num_pending:,}",
    ]


def _stats(namespace: pb.Namespace) -> dict[str, int]:
    fields = namespace.stats.DESCRIPTOR.fields
    return {field.name: getattr(namespace.stats, field.name) for field in fields}


def _shortened(text: str) -> str:
    return text if len(text) <= 20 else f"{text[:19]}…"
