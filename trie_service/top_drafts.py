"""What is drafted most, counted in bounded memory.

Space-Saving (Metwally, Agrawal, El Abbadi 2005): a new text takes the place, and the count, of the rarest
one. Counts are too high by at most the count of the rarest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trie_service.drafting import Draft
from trie_service.sequence import Int32Array

CAPACITY: Final = 256
SAMPLING: Final = 8  # one draft in so many is looked at, for it costs as much as a small draft
MAX_PATH_LEN: Final = 16
ROOT: Final = -1


@dataclass(frozen=True, slots=True)
class TopDraft:
    """A text that is drafted often."""

    context: tuple[int, ...]  # what of the context the index held
    tokens: tuple[int, ...]  # the likeliest path
    num_drafts: int  # about


class TopDrafts:
    """Counts drafts by the suffix of the context that matched and by the likeliest path."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._counts: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        self._num_seen = 0

    def note(self, context: Int32Array, draft: Draft) -> None:
        """Count a draft, if it is its turn."""
        self._num_seen += 1
        if self._num_seen % SAMPLING == 0 and len(draft) > 0:
            order = int(draft.orders[0])
            self.count(tuple(context[len(context) - order :].tolist()), likeliest_path(draft), SAMPLING)

    def count(self, context: tuple[int, ...], tokens: tuple[int, ...], times: int) -> None:
        """Count a text."""
        key = (context, tokens)
        count = self._counts.pop(key, None)
        if count is None and len(self._counts) >= self._capacity:
            count = self._counts.pop(min(self._counts, key=self._counts.__getitem__))
        self._counts[key] = (count or 0) + times

    def most(self) -> list[TopDraft]:
        """All that are counted, the most frequent first."""
        ranked = sorted(self._counts.items(), key=lambda item: -item[1])
        return [TopDraft(context, tokens, count) for (context, tokens), count in ranked]


def likeliest_path(draft: Draft) -> tuple[int, ...]:
    """From the root always the likeliest child: the first, for nodes come in order of likelihood."""
    tokens, parents = draft.tokens.tolist(), draft.parents.tolist()
    path: list[int] = []
    at = ROOT
    for node, parent in enumerate(parents):
        if parent == at and len(path) < MAX_PATH_LEN:
            path.append(tokens[node])
            at = node
    return tuple(path)


def follows(draft: Draft, tokens: tuple[int, ...]) -> int:
    """How many of the leading tokens a path of the draft holds."""
    children = {(parent, token): node for node, (parent, token) in enumerate(_edges(draft))}
    at = ROOT
    for place, token in enumerate(tokens):
        if (at, token) not in children:
            return place
        at = children[at, token]
    return len(tokens)


def _edges(draft: Draft) -> list[tuple[int, int]]:
    return list(zip(draft.parents.tolist(), draft.tokens.tolist(), strict=True))
