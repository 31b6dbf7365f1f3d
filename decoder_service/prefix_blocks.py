"""Which blocks of the cache hold which text, so that requests with a common beginning share them.

A block's keys and values are a function of all tokens up to its end and of nothing else, so a block is known by the
block before it and its own tokens; the tokens themselves are compared, not a hash of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from decoder_service.forest import Int32Array

BEGINNING: Final = -1  # stands for the block before the first

_Key = tuple[int, bytes]


class PrefixBlocks:
    """A tree of full blocks by their tokens."""

    def __init__(self, block_len: int) -> None:
        self._block_len = block_len
        self._blocks: dict[_Key, int] = {}
        self._keys: dict[int, _Key] = {}
        self._following: dict[int, set[int]] = {}

    def __contains__(self, block: int) -> bool:
        return block in self._keys

    def match(self, tokens: Int32Array) -> list[int]:
        """The known blocks that hold the beginning of a text, in order."""
        found: list[int] = []
        for part in self._parts(tokens, len(tokens)):
            block = self._blocks.get((found[-1] if found else BEGINNING, part))
            if block is None:
                break
            found.append(block)
        return found

    def remember(self, tokens: Int32Array, blocks: Sequence[int], length: int) -> None:
        """Know the blocks of a text whose first ``length`` positions are filled; what is known already stays."""
        before = BEGINNING
        for part, block in zip(self._parts(tokens, min(length, len(tokens))), blocks, strict=False):
            key = (before, part)
            if key not in self._blocks:
                if block in self._keys:  # known as part of another text: it cannot be both
                    return
                self._blocks[key] = block
                self._keys[block] = key
                self._following.setdefault(before, set()).add(block)
            before = self._blocks[key]

    def forget(self, block: int) -> list[int]:
        """No longer know a block, nor those behind it; return all of them."""
        forgotten = [block]
        for each in forgotten:  # grows
            key = self._keys.pop(each)
            del self._blocks[key]
            self._following.get(key[0], set()).discard(each)
            forgotten += self._following.pop(each, ())
        return forgotten

    def _parts(self, tokens: Int32Array, length: int) -> list[bytes]:
        size = self._block_len
        return [tokens[start : start + size].tobytes() for start in range(0, length - size + 1, size)]
