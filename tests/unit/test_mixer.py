from __future__ import annotations

import numpy as np
import pytest

from decoder_service.mixer import Mixer


def ints(*rows: object) -> np.ndarray:
    return np.array(rows, dtype=np.int32)


def floats(*rows: object) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def test_probabilities_of_siblings_leave_room_for_none_of_them() -> None:
    mixer = Mixer(num_inputs=1, view_sizes=(1,))
    inputs = floats([7.0], [7.0], [5.0], [-3.0])
    parents = ints(-1, -1, 0, -1)
    mixed = mixer.mix(inputs, np.zeros((4, 1), dtype=np.int32), parents)
    assert 0 < mixed[parents == -1].sum() < 1
    assert mixed[0] == mixed[1] > mixed[3] > 0
    assert 0 < mixed[2] < 1


def test_a_rival_takes_probability_away_and_a_cousin_does_not() -> None:
    mixer = Mixer(num_inputs=1, view_sizes=(1,))
    alone = mixer.mix(floats([2.0]), ints([0]), ints(-1))[0]
    rivals = mixer.mix(floats([2.0], [1.0]), ints([0], [0]), ints(-1, -1))[0]
    cousins = mixer.mix(floats([2.0], [1.0]), ints([0], [0]), ints(-1, 0))[0]
    assert rivals < alone == pytest.approx(cousins)


def test_it_learns_how_often_each_of_two_rivals_comes() -> None:
    mixer = Mixer(num_inputs=1, view_sizes=(2, 1))
    inputs, situations, parents = floats([1.0], [1.0]), ints([0, 0], [1, 0]), ints(-1, -1)
    random = np.random.default_rng(3)
    tail = []
    for step in range(6000):
        mixed = mixer.mix(inputs, situations, parents)
        true = random.choice(3, p=[0.6, 0.3, 0.1])
        mixer.learn(inputs, situations, (np.arange(2) == true) - mixed)
        if step >= 4000:
            tail.append(mixed)
    assert np.mean(tail, axis=0).tolist() == pytest.approx([0.6, 0.3], abs=0.05)


def test_it_learns_which_estimate_to_believe_in_which_situation() -> None:
    mixer = Mixer(num_inputs=2, view_sizes=(2,))
    random = np.random.default_rng(4)
    for _ in range(4000):
        situation = int(random.integers(2))
        inputs = random.choice([-3.0, 3.0], size=(1, 2)).astype(np.float32)
        mixed = mixer.mix(inputs, ints([situation]), ints(-1))
        comes = inputs[0, situation] > 0
        mixer.learn(inputs, ints([situation]), floats(comes) - mixed)
    contradiction = floats([3.0, -3.0])
    believed = [mixer.mix(contradiction, ints([situation]), ints(-1))[0] for situation in range(2)]
    assert believed[0] > 0.8
    assert believed[1] < 0.2


def test_views_do_not_share_weights() -> None:
    mixer = Mixer(num_inputs=1, view_sizes=(2, 2))
    before = mixer.mix(floats([1.0]), ints([1, 0]), ints(-1))
    mixer.learn(floats([1.0]), ints([0, 1]), floats(1.0))
    assert mixer.mix(floats([1.0]), ints([1, 0]), ints(-1)) == before
    assert mixer.mix(floats([1.0]), ints([0, 0]), ints(-1)) > before


def test_a_situation_seen_seldom_moves_further_at_once_than_one_seen_often() -> None:
    mixer = Mixer(num_inputs=1, view_sizes=(2,))
    moved = []
    for situation, num_before in ((0, 0), (1, 400)):
        inputs, where = floats([0.0]), ints([situation])
        for trial in range(num_before):
            mixer.learn(inputs, where, floats(float(trial % 2)) - mixer.mix(inputs, where, ints(-1)))
        before = mixer.mix(inputs, where, ints(-1))[0]
        mixer.learn(inputs, where, floats(1.0) - before)
        moved.append(mixer.mix(inputs, where, ints(-1))[0] - before)
    assert moved[0] > 2 * moved[1] > 0


def test_no_tokens_are_mixed_to_none() -> None:
    none = np.empty((0, 3), dtype=np.float32)
    mixed = Mixer(3, (4,)).mix(none, np.empty((0, 1), np.int32), np.empty(0, np.int32))
    assert len(mixed) == 0
