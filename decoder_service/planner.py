"""Joins the sources' drafts into one tree a request and spends a step's nodes where they pay most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from decoder_service.calibration import Calibration, Float32Array, Float64Array
from decoder_service.draft import NUM_OPINIONS, DraftTree, PlannedDraft, Source
from decoder_service.forest import NO_PARENT, Int32Array
from decoder_service.joined_tree import JoinedTree, along_paths, below, join, tried
from decoder_service.mixer import Mixer
from decoder_service.path_calibration import PathCalibration
from decoder_service.situation import situations_of, view_sizes
from decoder_service.step_cost import best_number

DRAFTING: Final = tuple(source for source in Source if source is not Source.MODEL)
SOURCE_OF_COLUMN: Final = np.array(DRAFTING, dtype=np.int8)


class _Guesses(NamedTuple):
    """One request's joined tree, and what the mixer made of it."""

    tree: JoinedTree
    situations: Int32Array  # [n, views]
    probabilities: Float32Array  # [n], given that the node's context is right
    paths: Float32Array  # [n], of the path down to the node, times the request's trust


class Planner:
    """Plans the drafts of a batch, and learns what they were worth. Not thread-safe."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._mixer = Mixer(len(DRAFTING) * (1 + NUM_OPINIONS), view_sizes())
        self._drafts: Sequence[Mapping[Source, DraftTree]] = ()
        self._path_calibration = PathCalibration()
        self._guesses: list[_Guesses] = []
        self._kept: list[Int32Array] = []  # planned nodes of each request

    def plan(
        self,
        drafts: Sequence[Mapping[Source, DraftTree]],
        budget: int,
        min_probability: float,
        *,
        costs: Float64Array | None = None,
        num_emitting: int | None = None,
        trusts: Sequence[float] | None = None,
    ) -> list[PlannedDraft]:
        """One draft a request, together at most ``budget`` nodes, the likeliest of the whole batch.

        No node is planned whose path has less than ``min_probability``, 0 to 1, and only so many that the step gives
        the most tokens for its time: ``costs`` [budget + 1] is the time with no node, with one and so on, None where
        time does not count; ``num_emitting`` requests give a token without any, by default those that draft. A
        request's estimates are multiplied by its trust, 0 to 1: what became of them lately.
        """
        self._drafts = drafts
        self._guesses = [
            self._guess(trees, trust)
            for trees, trust in zip(drafts, trusts or [1.0] * len(drafts), strict=True)
        ]
        paths = [self._path_calibration.corrected(guess.paths) for guess in self._guesses]
        most = len(drafts) if num_emitting is None else num_emitting
        self._kept = likeliest(paths, budget, min_probability, costs, most)
        return [
            _planned(guess.tree, nodes, path)
            for guess, path, nodes in zip(self._guesses, paths, self._kept, strict=True)
        ]

    def observe(self, request: int, emitted: Sequence[int]) -> None:
        """Learn from a verified step, also about nodes that were proposed and not planned.

        ``request`` is the index in the last plan, ``emitted`` what the model took, the bonus token last.
        """
        true_tokens = np.asarray(emitted, dtype=np.int32)
        for source, draft in self._drafts[request].items():
            nodes, hits = tried(draft.tokens, draft.parents, true_tokens)
            self._calibration.observe(
                source, draft.orders[nodes], draft.counts[nodes], draft.totals[nodes], hits
            )
        guess, kept = self._guesses[request], self._kept[request]
        tree = guess.tree
        nodes, hits = tried(tree.tokens, tree.parents, true_tokens)
        self._mixer.learn(tree.logits[nodes], guess.situations[nodes], hits - guess.probabilities[nodes])
        came_true = nodes[hits]
        if len(came_true) == len(emitted):  # the text ended at a node: what lies below it was never decided
            kept = kept[~below(tree.parents, int(came_true[-1]))[kept]]
        accepted = np.zeros(len(tree.tokens), dtype=np.bool_)
        accepted[came_true] = True
        self._path_calibration.observe(guess.paths[kept], accepted[kept])

    def _guess(self, trees: Mapping[Source, DraftTree], trust: float) -> _Guesses:
        tree = self._join(trees)
        situations = situations_of(tree)
        probabilities = self._mixer.mix(tree.logits, situations, tree.parents)
        paths = along_paths(tree.parents, probabilities) * np.float32(trust)
        return _Guesses(tree, situations, probabilities, paths)

    def _join(self, trees: Mapping[Source, DraftTree]) -> JoinedTree:
        columns = [(column, trees[source]) for column, source in enumerate(DRAFTING) if source in trees]
        estimates = [
            self._calibration.probability(DRAFTING[column], tree.orders, tree.counts, tree.totals)
            for column, tree in columns
        ]
        return join(columns, estimates, len(DRAFTING))


def likeliest(
    path_probabilities: Sequence[Float32Array],
    budget: int,
    least: float,
    costs: Float64Array | None = None,
    num_emitting: int = 1,
) -> list[Int32Array]:
    """Nodes to keep of each tree, ascending. A parent is as likely as its child and comes first in ties."""
    if not path_probabilities:
        return []
    everything = np.concatenate(path_probabilities)
    chosen = np.argsort(-everything, kind="stable")[:budget]
    chosen = chosen[everything[chosen] >= least]
    if costs is not None:
        chosen = chosen[: best_number(everything[chosen], num_emitting, costs[: len(chosen) + 1])]
    keep = np.zeros(len(everything), dtype=np.bool_)
    keep[chosen] = True
    ends = np.cumsum([len(tree) for tree in path_probabilities])[:-1]
    return [np.flatnonzero(part).astype(np.int32) for part in np.split(keep, ends)]


def _planned(tree: JoinedTree, nodes: Int32Array, path: Float32Array) -> PlannedDraft:
    """The chosen nodes of a tree; the parent of a chosen node is chosen too."""
    renumbered = np.full(len(tree.tokens) + 1, NO_PARENT, dtype=np.int32)  # the last entry is for NO_PARENT
    renumbered[nodes] = np.arange(len(nodes), dtype=np.int32)
    sources = SOURCE_OF_COLUMN[tree.estimates[nodes].argmax(axis=1)]
    return PlannedDraft(tree.tokens[nodes], renumbered[tree.parents[nodes]], sources, path[nodes])
