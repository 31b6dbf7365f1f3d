"""Whether copied text is sound: its trie counts what its words say.

Fit for millions of tokens, unlike ``Trie.check``, which asserts every invariant for tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trie_service.held_text import HeldText
from trie_service.trie import Trie
from trie_service.trie_arrays import CONTEXT_FLAG, TOKEN_MASK
from trie_service.trie_image import sequences_of

Arrays = Mapping[str, npt.NDArray[Any]]
UInt64Array = npt.NDArray[np.uint64]

_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(29)


def problems_of(arrays: Arrays, *, max_order: int, max_bytes: int) -> list[str]:
    """What is wrong with arrays of ``HeldText.to_arrays``; for people. Takes seconds a million tokens."""
    try:
        text = HeldText.from_arrays(arrays, max_order=max_order, max_bytes=max_bytes)
    except ValueError as error:
        return [f"the text's arrays make no sense: {error}"]
    grown = Trie(max_order=max_order, max_bytes=2 * max_bytes)
    for words in sequences_of(arrays["words"]):
        grown.insert(words & TOKEN_MASK, context_len=int(np.count_nonzero(words & CONTEXT_FLAG)))
    if text.trie.num_tokens != grown.num_tokens:
        return [f"the trie says that it holds {text.trie.num_tokens} tokens, its text has {grown.num_tokens}"]
    num_wrong = _num_different(_repeated_ngrams(arrays), _repeated_ngrams(grown.to_arrays()))
    return [f"the trie counts {num_wrong} n-grams otherwise than its text has them"] if num_wrong else []


def _num_different(one: UInt64Array, other: UInt64Array) -> int:
    return max(len(np.setdiff1d(one, other)), len(np.setdiff1d(other, one)))


def _repeated_ngrams(arrays: Arrays) -> UInt64Array:
    """A hash of each n-gram that was counted more than once, with its count.

    Others are left out: whether they have an entry of their own depends on what there was before.
    """
    parents, counts = arrays["parents"], arrays["counts"].astype(np.uint64)
    tokens = arrays["tokens"].astype(np.uint64)
    hashes = np.zeros(len(parents), dtype=np.uint64)
    start, end = 0, 1  # of the level above: the entries are listed breadth-first
    while start < end:
        start, end = end, int(np.searchsorted(parents, end))
        hashes[start:end] = _mixed(hashes[parents[start:end]] + tokens[start:end] + np.uint64(1))
    return _mixed(hashes + counts)[counts > 1]


def _mixed(values: UInt64Array) -> UInt64Array:
    mixed: UInt64Array = values * _FACTOR
    mixed ^= mixed >> _SHIFT
    return mixed * _FACTOR
