"""What a stream puts into a step."""

from __future__ import annotations

import numpy as np

from decoder_service.draft import PlannedDraft
from decoder_service.forest import NO_PARENT, Forest
from decoder_service.share import cut


def random_draft(generator: np.random.Generator, size: int) -> PlannedDraft:
    """A node's token is its number; a path is at most as likely as the path to its parent, and often as likely."""
    parents = np.array([int(generator.integers(NO_PARENT, node)) for node in range(size)], dtype=np.int32)
    paths = np.ones(size + 1, dtype=np.float32)  # the last entry is for NO_PARENT
    for node, parent in enumerate(parents):
        paths[node] = paths[parent] * generator.choice([0.1, 0.5, 0.9, 1.0])
    return PlannedDraft(
        np.arange(size, dtype=np.int32), parents, np.full(size, 2, dtype=np.int8), paths[:size]
    )


def test_a_draft_that_is_cut_keeps_only_nodes_with_their_parents() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        draft = random_draft(generator, int(generator.integers(0, 20)))
        max_nodes, deepest = int(generator.integers(0, 22)), int(generator.integers(-1, 6))
        kept = cut(draft, max_nodes, deepest)
        whole, part = Forest.of(draft.tokens, draft.parents), Forest.of(kept.tokens, kept.parents)
        assert len(kept) == min(max_nodes, int((whole.depths <= deepest).sum()))
        for node in range(len(kept)):
            assert kept.tokens[part.path_to(node)].tolist() == whole.path_to(int(kept.tokens[node]))
            assert kept.probabilities[node] == draft.probabilities[kept.tokens[node]]
            assert part.depths[node] <= deepest


def test_a_draft_that_is_cut_keeps_its_likeliest_nodes() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        draft = random_draft(generator, 20)
        max_nodes, deepest = int(generator.integers(1, 20)), int(generator.integers(0, 4))
        allowed = draft.probabilities[Forest.of(draft.tokens, draft.parents).depths <= deepest]
        likeliest = np.sort(allowed)[::-1][:max_nodes]
        assert np.sort(cut(draft, max_nodes, deepest).probabilities)[::-1].tolist() == likeliest.tolist()
