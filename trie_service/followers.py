"""How many followers a node has, children whose count is not 0, and hints where the first of them are.

To walk from sibling to sibling is to wait for main memory at every step. A node with many followers has a
note of the siblings next to its first child, which lets drafting fetch them all at once. Notes are only hints:
one that is out of date costs a little time.
"""

from __future__ import annotations

from typing import Final

from trie_service.compiled import compiled
from trie_service.prefetch import prefetch_row
from trie_service.trie_arrays import (
    CHILD,
    FOLLOWERS,
    FREE_NOTE,
    NEXT,
    NONE,
    NOTE_COLUMNS,
    NOTED,
    PEAK_NOTES,
    TrieArrays,
)

MANY: Final = 8  # followers of a node that has a note


@compiled
def num_followers(arrays: TrieArrays, node: int) -> int:
    """Children of ``node`` whose count is not 0."""
    followers: int = arrays.entries[node, FOLLOWERS]
    return followers if followers < NOTED else arrays.notes[followers - NOTED, 0]


@compiled
def add_followers(arrays: TrieArrays, node: int, number: int) -> None:
    """Note that there are ``number`` followers more, or fewer where it is negative."""
    entries = arrays.entries
    followers = entries[node, FOLLOWERS]
    if followers < NOTED:
        entries[node, FOLLOWERS] = followers + number
        if number > 0 and followers + number == MANY:
            _take_note(arrays, node)
    else:
        note = followers - NOTED
        arrays.notes[note, 0] += number
        if arrays.notes[note, 0] < MANY:
            entries[node, FOLLOWERS] = arrays.notes[note, 0]
            arrays.notes[note, 0] = arrays.state[FREE_NOTE]
            arrays.state[FREE_NOTE] = note


@compiled
def note_ahead(arrays: TrieArrays, node: int, child: int) -> None:
    """Note that a child is now next to the first."""
    note = arrays.entries[node, FOLLOWERS] - NOTED
    if note < 0:
        return
    moved = child
    for column in range(1, NOTE_COLUMNS):
        following = arrays.notes[note, column]
        arrays.notes[note, column] = moved
        if following == child:
            return
        moved = following


@compiled
def prefetch_note(arrays: TrieArrays, node: int) -> None:
    """Prepare for ``prefetch_followers``."""
    prefetch_row(arrays.notes, arrays.entries[node, FOLLOWERS] - NOTED)


@compiled
def prefetch_followers(arrays: TrieArrays, node: int) -> None:
    """Prepare to walk from sibling to sibling."""
    note = arrays.entries[node, FOLLOWERS] - NOTED
    if note >= 0:
        for column in range(1, NOTE_COLUMNS):
            prefetch_row(arrays.entries, arrays.notes[note, column])


@compiled
def _take_note(arrays: TrieArrays, node: int) -> None:
    """Note the first siblings of a node, as long as there is room for notes."""
    entries, state = arrays.entries, arrays.state
    note = state[FREE_NOTE]
    if note != NONE:
        state[FREE_NOTE] = arrays.notes[note, 0]
    elif state[PEAK_NOTES] < len(arrays.notes):
        note = state[PEAK_NOTES]
        state[PEAK_NOTES] += 1
    else:
        return
    arrays.notes[note, 0] = entries[node, FOLLOWERS]
    child = entries[node, CHILD]
    for column in range(1, NOTE_COLUMNS):
        child = NONE if child == NONE else entries[child, NEXT]
        arrays.notes[note, column] = child
    entries[node, FOLLOWERS] = NOTED + note
