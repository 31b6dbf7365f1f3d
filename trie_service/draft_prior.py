"""How likely a token is to come next, given how often it followed the matched suffixes.

The estimate blends the orders as a hierarchical Dirichlet model does (MacKay and Peto 1995). Of the
belief that the longer orders left over, an order takes the part total / (total + escape), shares it
out by counts, and leaves the rest to the next shorter order. The escape mass is the number of different
followers (as in PPM, method C) times a strength that falls with the order: long matches are trusted
sooner. An order that saw only what a longer one saw adds no evidence and is passed over.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trie_service.compiled import compiled
from trie_service.followers import MANY, prefetch_followers, prefetch_note
from trie_service.matching import LEAF_ORDER, LEAF_SLOT, NODE, NODE_ORDER
from trie_service.ngrams import next_slot
from trie_service.prefetch import prefetch_row
from trie_service.trie_arrays import (
    CHILD,
    CONTEXT_FLAG,
    COUNT,
    FOLLOWERS,
    LINK,
    NEXT,
    NONE,
    TOKEN,
    TOTAL,
    Int32Array,
    TrieArrays,
)

Float64Array = npt.NDArray[np.float64]

MAX_CANDIDATES: Final = 16
_MAX_SIBLINGS: Final = MANY  # followers looked at an order, roughly the most frequent
_LEAST_BELIEF: Final = 0.01

# Columns of a candidate.
CANDIDATE_TOKEN: Final = 0
ORDER: Final = 1  # longest suffix that the token followed
FOLLOWED: Final = 2  # how often it did
FOLLOWERS_TOTAL: Final = 3  # how often anything did
PLACE_NODE: Final = 4  # longest node of the match that the token followed; NONE: not known
PLACE_ORDER: Final = 5
PLACE_CHILD: Final = 6  # the entry of the token below it
CANDIDATE_PARENT: Final = 7  # for the draft: the node of the draft whose child it would be
NUM_CANDIDATE_COLUMNS: Final = 8


@cache
def escape_strengths(max_order: int) -> Float64Array:
    """Escape mass for each different follower, by order.

    With 10 / order, predicted and observed acceptance differ by 0.01 to 0.03 on average over the drafts
    of chat, agent and tool-use traces, in tenths of probability. The single follower of an 8-token suffix
    is believed with 0.44, that of one token with 0.09.
    """
    return 10.0 / np.maximum(np.arange(max_order + 1, dtype=np.float64), 1.0)


class Candidates(NamedTuple):
    """Tokens that may come next: their evidence and place in the trie, and the estimated probability."""

    columns: Int32Array  # [candidate, column]
    probabilities: Float64Array  # [candidate]


@compiled
def estimate_followers(
    arrays: TrieArrays, match: Int32Array, strengths: Float64Array, least: float, candidates: Candidates
) -> int:
    """Fill in the tokens that may follow a match, best evidence first; return their number.

    Tokens that cannot reach the probability ``least`` may be left out, and so may what shorter orders
    would add to the others.
    """
    least_belief = max(_LEAST_BELIEF, least / 2.0)
    entries = arrays.entries
    belief = 1.0
    num_candidates = 0
    seen_total = 0
    if match[LEAF_ORDER] > 0:
        word = arrays.ring[next_slot(arrays, match[LEAF_SLOT])]
        if word >= 0 and word & CONTEXT_FLAG == 0:
            share = 1.0 / (1.0 + strengths[match[LEAF_ORDER]])
            _add_candidate(candidates, 0, (word, match[LEAF_ORDER], 1, 1), (NONE, 0, NONE), share)
            num_candidates = 1
            belief -= share
            seen_total = 1
    node = match[NODE]
    for order in range(match[NODE_ORDER], 0, -1):
        link = entries[node, LINK]
        prefetch_row(entries, link)
        prefetch_followers(arrays, node)
        total = entries[node, TOTAL]
        if total > seen_total:
            seen_total = total
            num_followers = entries[node, FOLLOWERS]
            escape = strengths[order] * min(num_followers, _MAX_SIBLINGS)
            share = belief / (total + escape)
            if num_followers == 1 and num_candidates > 0:  # the one that followed the longer suffixes
                candidates.probabilities[0] += share * total
            else:
                least_count = max(1.0, (least - share * escape) / share)
                level = (node, order, share, least_count)
                num_candidates = _credit_followers(arrays, level, candidates, num_candidates)
            belief = share * escape
            if belief < least_belief:
                break
        node = link
    return num_candidates


@compiled
def _credit_followers(
    arrays: TrieArrays, level: tuple[int, int, float, float], candidates: Candidates, num_candidates: int
) -> int:
    """Credit followers of a node with ``share`` times their count; return the number of candidates."""
    node, order, share, least_count = level
    entries = arrays.entries
    total = entries[node, TOTAL]
    num_left = total
    num_uncredited = num_candidates  # whatever followed a longer suffix follows this one too
    child = entries[node, CHILD]
    for _ in range(_MAX_SIBLINGS):
        count = entries[child, COUNT]
        if count > 0:
            prefetch_row(entries, entries[child, CHILD])
            prefetch_note(arrays, child)
            prefetch_row(entries, entries[child, LINK])
            token = entries[child, TOKEN]
            index = _candidate_of(candidates, num_candidates, token)
            if index != NONE:
                candidates.probabilities[index] += share * count
                num_uncredited -= 1
            elif count >= least_count and num_candidates < MAX_CANDIDATES:
                evidence = (token, order, count, total)
                place = (node, order, child)
                _add_candidate(candidates, num_candidates, evidence, place, share * count)
                num_candidates += 1
        num_left -= count
        child = entries[child, NEXT]
        if child == NONE or (num_left < least_count and num_uncredited == 0):
            break
    return num_candidates


@compiled
def _candidate_of(candidates: Candidates, num_candidates: int, token: int) -> int:
    for index in range(num_candidates):
        if candidates.columns[index, CANDIDATE_TOKEN] == token:
            return index
    return NONE


@compiled
def _add_candidate(
    candidates: Candidates,
    index: int,
    evidence: tuple[int, int, int, int],
    place: tuple[int, int, int],
    probability: float,
) -> None:
    columns = candidates.columns
    columns[index, CANDIDATE_TOKEN] = evidence[0]
    columns[index, ORDER] = evidence[1]
    columns[index, FOLLOWED] = evidence[2]
    columns[index, FOLLOWERS_TOTAL] = evidence[3]
    columns[index, PLACE_NODE] = place[0]
    columns[index, PLACE_ORDER] = place[1]
    columns[index, PLACE_CHILD] = place[2]
    candidates.probabilities[index] = probability
