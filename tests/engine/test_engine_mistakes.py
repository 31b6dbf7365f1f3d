"""Mistakes in the rule that accepts are noticed by the comparisons of these tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine_cases import LENGTH, SAMPLED, assert_all_equal, base, drafted, knowing, prompt

import decoder_service.engine as engine_module
from decoder_service.accept import Acceptance, follow
from decoder_service.engine import Engine
from decoder_service.forest import Forest
from decoder_service.model import LoadedModel
from decoder_service.sampling import SamplingParams
from decoder_service.stream import Stream
from tests.verify.decode import (
    decode,
    decode_alone,
    new_engine,
    request,
)

Rule = Callable[[Forest, int, Callable[[int], int], Callable[[int], bool]], Acceptance]


def bonus_of_the_root(
    forest: Forest, root: int, choose: Callable[[int], int], is_last: Callable[[int], bool]
) -> Acceptance:
    """The bonus token is that of the first row, whatever was accepted."""
    right = follow(forest, root, choose, is_last)
    return Acceptance(right.nodes, [*right.tokens[:-1], right.tokens[0]])


def accepts_a_wrong_sibling(
    forest: Forest, root: int, choose: Callable[[int], int], is_last: Callable[[int], bool]
) -> Acceptance:
    """The last accepted node is replaced by a sibling: its keys and values go into the cache."""
    right = follow(forest, root, choose, is_last)
    last = right.nodes[-1]
    siblings = [node for node in np.flatnonzero(forest.parents == forest.parents[last]) if node != last]
    if last == root or not siblings:
        return right
    return Acceptance([*right.nodes[:-1], int(siblings[0])], right.tokens)


@pytest.mark.parametrize("bug", [bonus_of_the_root, accepts_a_wrong_sibling])
def test_a_wrong_acceptance_rule_is_noticed(
    llama: LoadedModel, sampling: SamplingParams, bug: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [
        request(prompt(seed), max_tokens=LENGTH, sampling=sampling, ignore_eos=True) for seed in range(4)
    ]
    plain = decode_alone(llama, requests)
    monkeypatch.setattr(engine_module, "follow", bug)
    found = decode(llama, [drafted(each) for each in requests], knowing(*plain))
    with pytest.raises(AssertionError):
        assert_all_equal(found, plain)


def test_a_penalty_that_forgets_accepted_drafts_is_noticed(
    llama: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = base(llama, SAMPLED)
    each = drafted(request(prompt(1), max_tokens=LENGTH, sampling=SAMPLED, ignore_eos=True))

    def forgetful(self: Engine, part: Any, first: int, output: Any, _best: list[int]) -> Acceptance:
        stream: Stream = part.stream
        root, history = part.num_known - 1, stream.text.tolist()
        return follow(
            part.forest,
            root,
            lambda node: stream.sampler.choose(output.logits[first + node - root], history),
            lambda token: stream.is_last(token, 0),
        )

    monkeypatch.setattr(Engine, "_accept_part", forgetful)
    engine, tokens = new_engine(llama, knowing(long)), list[int]()
    engine.add(each, lambda event: tokens.extend(getattr(event, "tokens", [])))
    while not engine.is_idle:
        engine.step()
    assert tokens != long.output
