"""A replay counts what a decoder would do, and its probabilities are honest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from decoder_service.calibration import Calibration
from decoder_service.draft import DraftAsk, DraftTree, Source
from decoder_service.planner import Planner
from decoder_service.replay import CONTEXT_LIMIT, Replay, ReplayLimits, Tally, cold_replay
from decoder_service.traces import Answer


class Scripted:
    """Drafts one chain, whatever is asked; keeps the texts that it was asked for."""

    source = Source.INDEX

    def __init__(self, chain: Sequence[int]) -> None:
        self.texts: dict[int, list[np.ndarray]] = {}
        self.closed: list[int] = []
        self._chain = np.array(chain, dtype=np.int32)
        self._asks: Sequence[DraftAsk] = ()

    def begin(self, asks: Sequence[DraftAsk]) -> None:
        self._asks = asks
        for ask in asks:
            self.texts.setdefault(ask.request_id, []).append(ask.text)

    def collect(self) -> list[DraftTree]:
        parents = np.arange(-1, len(self._chain) - 1, dtype=np.int32)
        strong = np.full(len(self._chain), 16, dtype=np.int32)
        return [DraftTree(self._chain, parents, strong, strong, strong) for _ in self._asks]

    def close(self, request_id: int) -> None:
        self.closed.append(request_id)


def answer(context: Sequence[int], out: Sequence[int]) -> Answer:
    return Answer(np.array([*context, *out], dtype=np.int32), len(out))


def replay_of(source: Scripted, budget: int = 8) -> Replay:
    return Replay([source], Planner(Calibration()), ReplayLimits(budget, 0.0), "namespace")


def test_a_step_emits_the_accepted_tokens_and_one_more() -> None:
    replay = replay_of(Scripted([1, 2, 3]))
    emitted: list[int] = []
    replay.run(answer([9], [1, 2, 7, 1, 8, 1, 2, 3]), emitted.append)
    assert emitted == [3, 2, 3]
    assert (replay.tally.num_steps, replay.tally.num_tokens, replay.tally.num_nodes) == (3, 8, 9)
    assert len(replay.tally.draft_us) == 3


def test_drafts_see_the_text_so_far_and_never_later_tokens() -> None:
    source = Scripted([])
    replay_of(source).run(answer([4, 5], [6, 7]))
    assert [text.tolist() for text in source.texts[1]] == [[4, 5], [4, 5, 6]]
    assert source.closed == [1]


def test_a_long_text_is_cut_to_its_newest_tokens_and_only_grows_within_a_request() -> None:
    source = Scripted([])
    context, out = range(CONTEXT_LIMIT - 100), range(7000, 7600)
    replay_of(source).run(answer(context, out))
    full = [*context, *out]
    end = len(context)
    for texts in source.texts.values():
        for text in texts:
            assert CONTEXT_LIMIT - 300 < len(text) <= CONTEXT_LIMIT
            assert text.tolist() == full[end - len(text) : end]
            end += 1
        assert [len(text) for text in texts] == list(range(len(texts[0]), len(texts[0]) + len(texts)))
    assert end == len(full)
    assert source.closed == list(source.texts)


def test_what_lies_below_the_end_of_an_answer_is_no_miss() -> None:
    replay = replay_of(Scripted([1, 2, 3, 4]))
    replay.run(answer([9], [1, 2]))
    assert replay.tally.tenth_nodes.sum() == 2
    assert replay.tally.tenth_accepted.sum() == 2
    assert replay.tally.num_nodes == 4


def test_tallies_add_up() -> None:
    total = Tally()
    for _ in range(2):
        replay = replay_of(Scripted([1, 2]))
        replay.run(answer([9], [1, 5, 1, 2]))
        total.add(replay.tally)
    assert (total.num_steps, total.num_tokens, total.num_nodes) == (4, 8, 8)
    assert total.tenth_nodes.sum() == 8
    assert total.tenth_accepted.sum() == 6


def markov_answers(random: np.random.Generator, num_answers: int) -> list[Answer]:
    """Texts of an order-1 source over 40 tokens: some are nearly certain, some a toss of five."""
    certain = random.random(40) < 0.5
    followers = random.integers(0, 40, size=(40, 5))

    def text(length: int) -> list[int]:
        tokens = [int(random.integers(40))]
        for _ in range(length - 1):
            newest = tokens[-1]
            pick = 0 if certain[newest] and random.random() < 0.9 else random.integers(5)
            tokens.append(int(followers[newest, pick]))
        return tokens

    return [answer(text(150), text(150)) for _ in range(num_answers)]


@pytest.mark.parametrize("seed", [1, 2])
def test_predicted_and_observed_acceptance_agree_in_every_tenth(seed: int) -> None:
    replay = cold_replay(ReplayLimits(24, 0.02), own=True)
    for each in markov_answers(np.random.default_rng(seed), 60):
        replay.run(each)
    tally = replay.tally
    held = tally.tenth_nodes >= 0.01 * tally.tenth_nodes.sum()
    gaps = (tally.tenth_predicted[held] - tally.tenth_accepted[held]) / tally.tenth_nodes[held]
    assert held.sum() >= 5
    assert np.abs(gaps).max() <= 0.05, gaps
    assert tally.num_tokens / tally.num_steps > 1.5
