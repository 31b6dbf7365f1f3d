"""Calls the index's compiled code once, so that the image carries it and a replica starts at once."""

from __future__ import annotations

import numpy as np

from trie_service.drafting import DraftLimits, draft
from trie_service.service import compile_index
from trie_service.trie import Trie

NUM_REPEATS = 4


def main() -> None:
    """Learn, draft and forget; raise RuntimeError if the draft is not what was learned."""
    compile_index()
    trie = Trie()
    tokens = np.tile(np.arange(8, dtype=np.int32), NUM_REPEATS)
    trie.insert(tokens)
    found = draft(trie, tokens[:3], DraftLimits(max_nodes=2))
    if found.tokens.tolist() != [3, 4]:
        raise RuntimeError(f"drafted {found.tokens.tolist()} after 0, 1, 2 of a repeated count to 7")
    trie.forget(tokens)


if __name__ == "__main__":
    main()
