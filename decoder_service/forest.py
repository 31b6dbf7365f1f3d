"""The token forest: the one shape that every step's input has.

Plain decoding is a forest of one node, a retrieved continuation a chain, a multi-branch draft a
tree, a prefill chunk a chain. See ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]

NO_PARENT = -1


@dataclass(frozen=True, slots=True)
class Forest:
    """Tokens that hang under a committed context.

    Node i is a child of node ``parents[i]``, or of the context where that is -1. Parents come before
    their children. A node's position is the context's length plus its depth, and it sees the context,
    its ancestors and itself.
    """

    tokens: Int32Array  # [n]
    parents: Int32Array  # [n], -1 or an earlier node
    depths: Int32Array  # [n], 0 for a child of the context

    @classmethod
    def of(cls, tokens: Sequence[int] | Int32Array, parents: Sequence[int] | Int32Array) -> Forest:
        """Build a forest and derive the depths; raise ValueError for arrays that are none."""
        token_array = np.asarray(tokens, dtype=np.int32)
        parent_array = np.asarray(parents, dtype=np.int32)
        if token_array.shape != parent_array.shape or token_array.ndim != 1:
            raise ValueError(f"tokens {token_array.shape} and parents {parent_array.shape} differ in shape")
        depths = np.zeros_like(parent_array)
        for node, parent in enumerate(parent_array.tolist()):
            if not NO_PARENT <= parent < node:
                raise ValueError(f"node {node} has parent {parent}: parents come before their children")
            depths[node] = 0 if parent == NO_PARENT else depths[parent] + 1
        return cls(token_array, parent_array, depths)

    @classmethod
    def chain(cls, tokens: Sequence[int] | Int32Array) -> Forest:
        """Each token the child of the one before."""
        token_array = np.asarray(tokens, dtype=np.int32)
        depths = np.arange(len(token_array), dtype=np.int32)
        return cls(token_array, depths - 1, depths)

    def __len__(self) -> int:
        return len(self.tokens)

    def path_to(self, node: int) -> list[int]:
        """Node indices from a root down to ``node``, both included."""
        path = [node]
        while (parent := int(self.parents[path[-1]])) != NO_PARENT:
            path.append(parent)
        return path[::-1]

    def children_of(self, node: int, token: int) -> list[int]:
        """Children of ``node`` (-1: of the context) that hold ``token``."""
        return np.flatnonzero((self.parents == node) & (self.tokens == token)).tolist()
