"""The acceptance rule: sample, then follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from decoder_service.forest import Forest


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a verified step yields."""

    nodes: list[int]  # the root and every accepted draft node, from the top down
    tokens: list[int]  # emitted: the accepted nodes' tokens, then the model's own last one


def follow(
    forest: Forest, root: int, choose: Callable[[int], int], is_last: Callable[[int], bool]
) -> Acceptance:
    """Follow the model's own tokens down the forest, from the newest token's node ``root``.

    ``choose(node)`` is the model's token after that node, argmax or seeded sample; it is called once for each
    node of the path, from the top down. A child that holds it is accepted; without one it is the bonus token.
    Several children may hold it: their rows are equal, and the walk goes on from all of them. ``is_last(token)``
    ends the walk, for end tokens and length limits. Every emitted token is a plain sample of the model, so the
    rule is exact for any drafts. Source: DESIGN, "sample, then follow"; Leviathan et al. 2023 for the greedy case.
    """
    nodes: list[int] = []
    tokens: list[int] = []
    current = [root]
    while current:
        nodes.append(current[0])
        token = choose(current[0])
        tokens.append(token)
        if is_last(token):
            break
        current = [child for node in current for child in forest.children_of(node, token)]
    return Acceptance(nodes, tokens)
