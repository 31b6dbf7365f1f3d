"""A trie as a few plain arrays, to be kept and read back, and the way back into a trie.

The image lists the entries breadth-first: parents before children, the children of one parent next to each
other, in the order of the siblings. So it needs no links, and whatever numbers it holds, what is built from
it is a tree. Names, types and shapes: ``IMAGE_TYPES``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trie_service.children import find_child, is_leaf, slot_of_leaf
from trie_service.compiled import compiled, compiled_with_arrays
from trie_service.followers import add_followers
from trie_service.ngram_table import hash_of, hash_with, index_entry, prefetch_bucket, set_num_buckets
from trie_service.prefetch import prefetch_row
from trie_service.trie_arrays import (
    CHILD,
    CONTEXT_FLAG,
    COUNT,
    FOLLOWERS,
    FORGOTTEN,
    HEAD,
    LEAF_BASE,
    LINK,
    NEXT,
    NONE,
    NUM_ENTRIES,
    NUM_SEQUENCES,
    NUM_TOKENS,
    NUM_WORDS,
    PARENT,
    PEAK_ENTRIES,
    PEAK_WORDS,
    PREV,
    ROOT,
    SEPARATOR,
    TAIL,
    TAIL_IS_CUT,
    TOKEN,
    TOKEN_MASK,
    TOTAL,
    Int32Array,
    TrieArrays,
)

_AHEAD: Final = 8  # entries

Image = dict[str, npt.NDArray[Any]]

IMAGE_TYPES: Final = {
    "header": np.dtype(np.int64),  # [2], max_order and whether the oldest sequence has lost its beginning
    "words": np.dtype(np.int32),  # [words], the ring's words, oldest first
    "parents": np.dtype(np.int32),  # [entries], place of each entry's parent in this list; of the root -1
    "tokens": np.dtype(np.int32),  # [entries]
    "counts": np.dtype(np.int32),  # [entries]
    "slots": np.dtype(np.int32),  # [entries], of a leaf the place of its token in ``words``; of a node -1
}


def image_of(arrays: TrieArrays, max_order: int) -> Image:
    """Copy what a trie holds. About 0.2 s a million tokens; only reads, so drafts may go on meanwhile."""
    state = arrays.state
    slots = (int(state[TAIL]) + np.arange(int(state[NUM_WORDS]))) % len(arrays.ring)
    num_entries = int(state[NUM_ENTRIES])
    columns = [np.empty(num_entries, dtype=np.int32) for _ in range(4)]
    _list_entries(
        arrays, np.empty(num_entries, dtype=np.int32), (columns[0], columns[1], columns[2], columns[3])
    )
    return {
        "header": np.array([max_order, state[TAIL_IS_CUT]], dtype=np.int64),
        "words": arrays.ring[slots],
        "parents": columns[0],
        "tokens": columns[1],
        "counts": columns[2],
        "slots": columns[3],
    }


def max_order_of(image: Mapping[str, npt.NDArray[Any]]) -> int:
    """The order of the trie of an image; ValueError unless the image has all its parts."""
    for name, dtype in IMAGE_TYPES.items():
        array = image.get(name)
        if array is None:
            raise ValueError(f"the image has no array {name!r}")
        if array.dtype != dtype or array.ndim != 1:
            raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, but must be {dtype}[n]")
    if len(image["header"]) != 2:
        raise ValueError(f"header has {len(image['header'])} cells, but must have 2")
    lengths = {name: len(image[name]) for name in ("parents", "tokens", "counts", "slots")}
    if len(set(lengths.values())) != 1 or lengths["parents"] < 1:
        raise ValueError(f"the columns of the entries differ in length or are empty: {lengths}")
    words = image["words"]
    if len(words) > 0 and not (int(words.min()) >= FORGOTTEN and int(words[-1]) < 0):
        raise ValueError("words hold a number below -2, or end within a sequence")
    return int(image["header"][0])


def fits(image: Mapping[str, npt.NDArray[Any]], arrays: TrieArrays, max_order: int) -> bool:
    """Whether the entries can be taken over as they are, with room for the next token."""
    has_room = len(image["words"]) <= len(arrays.ring) and len(image["parents"]) + 64 <= len(arrays.entries)
    return has_room and max_order_of(image) == max_order


def load_image(image: Mapping[str, npt.NDArray[Any]], arrays: TrieArrays, max_order: int) -> None:
    """Fill empty arrays, for which the image ``fits``. About 0.2 s a million tokens.

    Raises ValueError, naming the entry, for numbers out of bounds or entries that are no tree over the
    words. Counts are taken as they are: wrong ones give wrong drafts, but no wrong access.
    """
    _load_words(image["words"], arrays)
    arrays.state[TAIL_IS_CUT] = int(image["header"][1] == 1)
    columns = (image["parents"], image["tokens"], image["counts"], image["slots"])
    wrong = _load_entries(arrays, columns, max_order)
    if wrong != NONE:
        entry = {name: int(image[name][wrong]) for name in ("parents", "tokens", "counts", "slots")}
        raise ValueError(f"entry {wrong} is not part of a trie over the words: {entry}")


def sequences_of(words: Int32Array) -> list[Int32Array]:
    """The sequences, context flagged, of which words of a ring are made."""
    ends = np.flatnonzero(words < 0)
    starts = np.concatenate(([0], ends + 1))[:-1]
    return [words[start:end] for start, end in zip(starts, ends, strict=True) if end > start]


def _load_words(words: Int32Array, arrays: TrieArrays) -> None:
    state = arrays.state
    arrays.ring[: len(words)] = words
    state[TAIL] = 0
    state[HEAD] = len(words) % len(arrays.ring)
    state[NUM_WORDS] = state[PEAK_WORDS] = len(words)
    state[NUM_SEQUENCES] = np.count_nonzero(words == SEPARATOR)
    state[NUM_TOKENS] = np.count_nonzero((words >= 0) & (words < CONTEXT_FLAG))


@compiled
def _list_entries(
    arrays: TrieArrays,
    queue: Int32Array,
    columns: tuple[Int32Array, Int32Array, Int32Array, Int32Array],
) -> None:
    parents, tokens, counts, slots = columns
    entries = arrays.entries
    queue[0] = ROOT
    parents[0] = NONE
    size = 1
    for index in range(len(queue)):
        entry = queue[index]
        tokens[index] = entries[entry, TOKEN]
        counts[index] = entries[entry, COUNT]
        slots[index] = NONE
        if is_leaf(arrays, entry):
            slots[index] = (slot_of_leaf(arrays, entry) - arrays.state[TAIL]) % len(arrays.ring)
            continue
        child = entries[entry, CHILD]
        while child != NONE:
            queue[size] = child
            parents[size] = index
            size += 1
            child = entries[child, NEXT]


@compiled_with_arrays
def _load_entries(
    arrays: TrieArrays, columns: tuple[Int32Array, Int32Array, Int32Array, Int32Array], max_order: int
) -> int:
    """Make the entries after the root; return the first that cannot be, or NONE."""
    parents, _, _, slots = columns
    num_entries = len(parents)
    depths = np.zeros(num_entries, dtype=np.uint8)
    if parents[0] != NONE or slots[0] != NONE:
        return ROOT
    set_num_buckets(arrays, num_entries)
    for entry in range(1, num_entries):
        parent = parents[entry]
        if not 0 <= parent < entry or parent < parents[entry - 1] or slots[parent] != NONE:
            return entry
        depths[entry] = depths[parent] + 1
        if depths[entry] > max_order + 1 or not _is_sound(arrays, columns, entry):
            return entry
        _prefetch_later(arrays, columns, entry)
        _load_entry(arrays, columns, entry)
        if slots[entry] != NONE:
            arrays.entries[entry, LINK] = _likely_link(arrays, entry)
        elif not _set_link(arrays, entry):
            return entry
    arrays.state[NUM_ENTRIES] = arrays.state[PEAK_ENTRIES] = num_entries
    return NONE


@compiled
def _prefetch_later(
    arrays: TrieArrays, columns: tuple[Int32Array, Int32Array, Int32Array, Int32Array], entry: int
) -> None:
    """Prepare for entries that are made a little later; what their numbers say is not checked yet."""
    parents, tokens, _, slots = columns
    later = entry + 2 * _AHEAD
    if later >= len(parents):
        return
    prefetch_row(arrays.ring, slots[later])
    if 0 <= parents[later] < entry:
        prefetch_bucket(arrays, hash_with(hash_of(arrays, parents[later]), tokens[later]))
        prefetch_row(arrays.entries, arrays.entries[parents[later], LINK])
    later = entry + _AHEAD
    if 0 <= parents[later] < entry:
        link = arrays.entries[parents[later], LINK]
        if link != NONE:
            prefetch_row(arrays.entries, arrays.entries[link, CHILD])
            prefetch_bucket(arrays, hash_with(hash_of(arrays, link), tokens[later]))


@compiled
def _is_sound(
    arrays: TrieArrays, columns: tuple[Int32Array, Int32Array, Int32Array, Int32Array], entry: int
) -> bool:
    _, tokens, counts, slots = columns
    slot = slots[entry]
    if tokens[entry] < 0 or tokens[entry] > TOKEN_MASK or counts[entry] < 0:
        return False
    if slot < 0 or slot >= arrays.state[NUM_WORDS]:
        return bool(slot == NONE)
    word = arrays.ring[slot]
    return bool(word >= 0 and word & TOKEN_MASK == tokens[entry])


@compiled
def _load_entry(
    arrays: TrieArrays, columns: tuple[Int32Array, Int32Array, Int32Array, Int32Array], entry: int
) -> None:
    parents, tokens, counts, slots = columns
    entries = arrays.entries
    parent = parents[entry]
    entries[entry, TOKEN] = tokens[entry]
    entries[entry, PARENT] = parent
    entries[entry, COUNT] = counts[entry]
    entries[entry, TOTAL] = 0
    entries[entry, CHILD] = NONE if slots[entry] == NONE else LEAF_BASE - slots[entry]
    entries[entry, NEXT] = NONE
    entries[entry, LINK] = NONE
    entries[entry, FOLLOWERS] = 0
    entries[parent, TOTAL] += counts[entry]
    if entries[parent, CHILD] == NONE:
        entries[parent, CHILD] = entry
    else:
        arrays.lists[entry, PREV] = entry - 1
        entries[entry - 1, NEXT] = entry
    arrays.lists[entries[parent, CHILD], PREV] = entry
    if counts[entry] > 0:
        add_followers(arrays, parent, 1)
    index_entry(arrays, entry, hash_with(hash_of(arrays, parent), tokens[entry]))


@compiled
def _set_link(arrays: TrieArrays, entry: int) -> bool:
    """Set a node's suffix link; False if its suffix is no node."""
    entries = arrays.entries
    parent = entries[entry, PARENT]
    link = ROOT if parent == ROOT else find_child(arrays, entries[parent, LINK], entries[entry, TOKEN])
    entries[entry, LINK] = link
    return bool(link != NONE and not is_leaf(arrays, link))


@compiled
def _likely_link(arrays: TrieArrays, leaf: int) -> int:
    """A leaf's suffix link where it is quickly found, else NONE."""
    entries = arrays.entries
    parent = entries[leaf, PARENT]
    if parent == ROOT:
        return ROOT
    first = entries[entries[parent, LINK], CHILD]
    return first if first >= 0 and entries[first, TOKEN] == entries[leaf, TOKEN] else NONE
