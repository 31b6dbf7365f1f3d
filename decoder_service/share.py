"""What each stream puts into a step: its pending tokens, and a draft under the newest of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoder_service.draft import PlannedDraft
from decoder_service.forest import NO_PARENT, Forest
from decoder_service.stream import Stream

NO_DRAFT = PlannedDraft(
    np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int8), np.empty(0, np.float32)
)


@dataclass(frozen=True, slots=True)
class Share:
    """The pending tokens that one stream puts into a step."""

    stream: Stream
    num_known: int

    @property
    def is_complete(self) -> bool:
        """Whether no pending token is left out, so that the step emits."""
        return self.num_known == len(self.stream.pending)


def share_out(streams: Sequence[Stream], prefill_rows: int) -> list[Share]:
    """Who takes part in a step: streams that decode, then prompts, which share ``prefill_rows`` as they arrived."""
    shares = []
    for stream in sorted(streams, key=lambda each: (len(each.pending) > 1, each.number)):
        num_known = len(stream.pending)
        if num_known > 1:
            num_known = min(num_known, prefill_rows)
            prefill_rows -= num_known
        if num_known > 0:
            shares.append(Share(stream, num_known))
    return shares


def hang_under(known: Sequence[int], planned: PlannedDraft) -> Forest:
    """The known tokens as a chain, the draft under the last of them."""
    if len(planned) == 0:
        return Forest.chain(known)
    newest = len(known) - 1
    parents = np.where(planned.parents == NO_PARENT, newest, planned.parents + len(known))
    return Forest.of([*known, *planned.tokens.tolist()], [*range(-1, newest), *parents.tolist()])


def cut(planned: PlannedDraft, max_nodes: int, deepest: int) -> PlannedDraft:
    """Keep the likeliest nodes, at most so many, and none deeper than ``deepest`` (0: a child of the newest token)."""
    depths = Forest.of(planned.tokens, planned.parents).depths
    allowed = np.flatnonzero(depths <= deepest)
    likeliest = np.argsort(-planned.probabilities[allowed], kind="stable")[:max_nodes]
    kept = np.sort(allowed[likeliest])
    if len(kept) == len(planned):
        return planned
    renumbered = np.full(len(planned) + 1, NO_PARENT, dtype=np.int32)  # the last entry is for NO_PARENT
    renumbered[kept] = np.arange(len(kept), dtype=np.int32)
    parents = renumbered[planned.parents[kept]]
    return PlannedDraft(planned.tokens[kept], parents, planned.sources[kept], planned.probabilities[kept])
