"""Joins the sources' drafts into one tree a request and spends a step's nodes where they pay most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from decoder_service.calibration import ORDER_CELLS, Calibration, Float32Array
from decoder_service.draft import DraftTree, PlannedDraft, Source
from decoder_service.forest import NO_PARENT, Int32Array
from decoder_service.joined_tree import JoinedTree, along_paths, join, tried
from decoder_service.mixer import Mixer

DRAFTING: Final = tuple(source for source in Source if source is not Source.MODEL)
SOURCE_OF_COLUMN: Final = np.array(DRAFTING, dtype=np.int8)


class Planner:
    """Plans the drafts of a batch, and learns what they were worth. Not thread-safe."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._mixer = Mixer(num_sources=len(DRAFTING), num_lengths=int(ORDER_CELLS[-1]) + 1)
        self._drafts: Sequence[Mapping[Source, DraftTree]] = ()
        self._joined: list[JoinedTree] = []

    def plan(
        self,
        drafts: Sequence[Mapping[Source, DraftTree]],
        budget: int,
        min_probability: float,
        *,
        row_cost: float = 0.0,
        trusts: Sequence[float] | None = None,
    ) -> list[PlannedDraft]:
        """One draft a request, together at most ``budget`` nodes, the likeliest of the whole batch.

        No node is planned whose path has less than ``min_probability``, 0 to 1, nor one that makes the step dearer by
        more than it gains: ``row_cost`` is a row's share of the cost of a plain step. A request's estimates are
        multiplied by its trust, 0 to 1: what became of them lately.
        """
        self._drafts = drafts
        self._joined = [self._join(trees) for trees in drafts]
        paths = [along_paths(tree.parents, self._probabilities(tree)) for tree in self._joined]
        trusted = [
            path * np.float32(trust) for path, trust in zip(paths, trusts or [1.0] * len(paths), strict=True)
        ]
        kept = likeliest(trusted, budget, min_probability, row_cost)
        return [
            _planned(tree, nodes, path) for tree, path, nodes in zip(self._joined, paths, kept, strict=True)
        ]

    def observe(self, request: int, emitted: Sequence[int]) -> None:
        """Learn from a verified step, also about nodes that were proposed and not planned.

        ``request`` is the index in the last plan, ``emitted`` what the model took, the bonus token last.
        """
        true_tokens = np.asarray(emitted, dtype=np.int32)
        for source, tree in self._drafts[request].items():
            nodes, hits = tried(tree.tokens, tree.parents, true_tokens)
            self._calibration.observe(
                source, tree.orders[nodes], tree.counts[nodes], tree.totals[nodes], hits
            )
        joined = self._joined[request]
        nodes, hits = tried(joined.tokens, joined.parents, true_tokens)
        self._mixer.learn(joined.logits[nodes], joined.roles[nodes], self._lengths(joined)[nodes], hits)

    def _join(self, trees: Mapping[Source, DraftTree]) -> JoinedTree:
        columns = [(column, trees[source]) for column, source in enumerate(DRAFTING) if source in trees]
        estimates = [
            self._calibration.probability(DRAFTING[column], tree.orders, tree.counts, tree.totals)
            for column, tree in columns
        ]
        return join(columns, estimates, len(DRAFTING))

    def _probabilities(self, tree: JoinedTree) -> Float32Array:
        return self._mixer.mix(tree.logits, tree.roles, self._lengths(tree))

    @staticmethod
    def _lengths(tree: JoinedTree) -> Int32Array:
        return ORDER_CELLS[np.minimum(tree.longest_orders, len(ORDER_CELLS) - 1)]


def likeliest(
    path_probabilities: Sequence[Float32Array], budget: int, least: float, row_cost: float = 0.0
) -> list[Int32Array]:
    """Nodes to keep of each tree, ascending. A parent is as likely as its child and comes first in ties."""
    if not path_probabilities:
        return []
    everything = np.concatenate(path_probabilities)
    chosen = np.argsort(-everything, kind="stable")[:budget]
    keep = np.zeros(len(everything), dtype=np.bool_)
    keep[chosen] = (everything[chosen] >= least) & pays(everything[chosen], len(path_probabilities), row_cost)
    ends = np.cumsum([len(tree) for tree in path_probabilities])[:-1]
    return [np.flatnonzero(part).astype(np.int32) for part in np.split(keep, ends)]


def pays(probabilities: Float32Array, num_requests: int, row_cost: float) -> npt.NDArray[np.bool_]:
    """Which of the nodes, likeliest first, raise the expected tokens per step time; always a leading part.

    A step with n nodes takes 1 + n * row_cost plain steps and is expected to give one token a request and the sum of
    its nodes' probabilities. A node pays while it gives more per cost than the step without it does.
    """
    before = num_requests + np.cumsum(probabilities) - probabilities  # expected tokens without the node
    cost = 1 + row_cost * np.arange(len(probabilities))  # of the step without the node
    return np.logical_and.accumulate(probabilities * cost >= before * row_cost)


def _planned(tree: JoinedTree, nodes: Int32Array, path: Float32Array) -> PlannedDraft:
    """The chosen nodes of a tree; the parent of a chosen node is chosen too."""
    renumbered = np.full(len(tree.tokens) + 1, NO_PARENT, dtype=np.int32)  # the last entry is for NO_PARENT
    renumbered[nodes] = np.arange(len(nodes), dtype=np.int32)
    sources = SOURCE_OF_COLUMN[tree.estimates[nodes].argmax(axis=1)]
    return PlannedDraft(tree.tokens[nodes], renumbered[tree.parents[nodes]], sources, path[nodes])
