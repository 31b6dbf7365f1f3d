from __future__ import annotations

import numpy as np
import pytest
import torch

from decoder_service.sampling import Sampler, SamplingParams, argmax, argmax_rows, gumbel_argmax

NUM_DRAWS = 100_000
SCORES = np.array([1.0, 0.2, -0.7, 2.1, 0.0, -3.0, 1.4, 0.9], dtype=np.float32)


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores.astype(np.float64) - scores.max())
    return weights / weights.sum()


def chi_square(draws: np.ndarray, probabilities: np.ndarray) -> float:
    """Pearson's statistic in standard deviations above its mean: a right sampler stays below 5."""
    expected = probabilities * len(draws)
    counts = np.bincount(draws, minlength=len(probabilities))
    freedom = len(probabilities) - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return (statistic - freedom) / np.sqrt(2 * freedom)


def sampler(
    prompt_len: int = 1, min_tokens: int = 0, ends: tuple[int, ...] = (), **params: object
) -> Sampler:
    return Sampler(SamplingParams(**params), prompt_len, min_tokens, ends)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    """Of one seed, at ascending positions."""
    return np.array([gumbel_argmax(SCORES, 7, position) for position in range(NUM_DRAWS)])


def test_draws_at_successive_positions_follow_the_softmax(draws: np.ndarray) -> None:
    assert chi_square(draws, softmax(SCORES)) < 5


def test_draws_of_different_seeds_follow_the_softmax() -> None:
    of_seeds = np.array([gumbel_argmax(SCORES, seed, 100) for seed in range(NUM_DRAWS // 4)])
    assert chi_square(of_seeds, softmax(SCORES)) < 5


def test_successive_draws_are_independent(draws: np.ndarray) -> None:
    pairs = draws[:-1:2] * len(SCORES) + draws[1::2]
    likely = softmax(SCORES)
    assert chi_square(pairs, np.outer(likely, likely).ravel()) < 5


def test_the_same_position_of_successive_seeds_is_independent() -> None:
    pairs = [
        gumbel_argmax(SCORES, seed, 3) * len(SCORES) + gumbel_argmax(SCORES, seed + 1, 3)
        for seed in range(0, 50_000, 2)
    ]
    likely = softmax(SCORES)
    assert chi_square(np.array(pairs), np.outer(likely, likely).ravel()) < 5


def test_the_chi_square_test_notices_two_percent_too_much(draws: np.ndarray) -> None:
    biased = softmax(SCORES)
    biased[3] += 0.02
    assert chi_square(draws, biased / biased.sum()) > 5


def test_a_draw_depends_on_nothing_but_seed_and_position() -> None:
    positions = np.random.default_rng(0).permutation(500)
    shuffled = {int(position): gumbel_argmax(SCORES, 11, int(position)) for position in positions}
    assert [shuffled[position] for position in range(500)] == [
        gumbel_argmax(SCORES, 11, position) for position in range(500)
    ]


def test_a_tokens_noise_does_not_depend_on_the_rest_of_the_vocabulary() -> None:
    """So the winner among many wins among fewer too, and a longer vocabulary changes no noise."""
    generator = np.random.default_rng(1)
    for position in range(300):
        scores = generator.normal(size=50).astype(np.float32)
        winner = gumbel_argmax(scores, 5, position)
        fewer = np.where(generator.random(50) < 0.5, scores, -np.inf).astype(np.float32)
        fewer[winner] = scores[winner]
        assert gumbel_argmax(fewer, 5, position) == winner
        longer = np.append(scores, np.full(14, -1e9, np.float32))
        assert gumbel_argmax(longer, 5, position) == winner


def test_seeds_and_positions_use_different_noise() -> None:
    flat = np.zeros(1000, dtype=np.float32)
    chosen = {
        gumbel_argmax(flat, seed, position)
        for seed in (0, 1, 2**64 - 1)
        for position in range(8, 2**40, 2**37)
    }
    assert len(chosen) > 20


def test_where_every_token_is_excluded_the_first_one_is_drawn() -> None:
    assert gumbel_argmax(np.full(10, -np.inf, dtype=np.float32), 1, 5) == 0


def test_excluded_tokens_are_never_drawn() -> None:
    scores = np.full(100, -np.inf, dtype=np.float32)
    scores[[3, 50, 99]] = [0.0, -20.0, 1.0]
    assert {gumbel_argmax(scores, 1, position) for position in range(2000)} <= {3, 50, 99}


@pytest.mark.parametrize(
    ("params", "allowed"),
    [
        ({"top_k": 2}, {3, 6}),
        ({"top_p": 0.5}, {3, 6}),
        ({"min_p": 0.3}, {0, 3, 6, 7}),
        ({"top_k": 3, "logit_bias": {5: 5.0, 3: -100.0}}, {0, 5, 6}),
    ],
    ids=["top_k", "top_p", "min_p", "bias before top_k"],
)
def test_filters_keep_what_they_should(params: dict[str, object], allowed: set[int]) -> None:
    chooser = sampler(temperature=1.0, **params)
    logits = torch.from_numpy(SCORES.copy())
    drawn = {chooser.choose(logits, [0] * length) for length in range(1, 1000)}
    assert drawn == allowed


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_temperature_scales_the_logits(temperature: float) -> None:
    chooser = sampler(temperature=temperature, seed=3)
    logits = torch.from_numpy(SCORES.copy())
    drawn = np.array([chooser.choose(logits, [0] * length) for length in range(1, 2000)])
    assert chi_square(drawn, softmax(SCORES / temperature)) < 5


def test_a_repetition_penalty_counts_prompt_and_output() -> None:
    chooser = sampler(repetition_penalty=10.0)
    logits = torch.from_numpy(SCORES.copy())
    assert chooser.choose(logits, [0]) == 3
    assert chooser.choose(logits, [0, 3]) == 6
    assert chooser.choose(logits, [0, 3, 6]) == 7


def test_end_tokens_wait_for_the_least_number_of_tokens() -> None:
    chooser = sampler(prompt_len=2, min_tokens=2, ends=(3, 6))
    logits = torch.from_numpy(SCORES.copy())
    assert [chooser.choose(logits, [0] * length) for length in (2, 3, 4)] == [0, 0, 3]


def test_choosing_leaves_the_logits_as_they_are() -> None:
    logits = torch.from_numpy(SCORES.copy())
    sampler(temperature=0.7, top_k=3, repetition_penalty=2.0, logit_bias={1: 5.0}).choose(logits, [0, 3])
    assert logits.numpy().tolist() == SCORES.tolist()


def test_a_tie_goes_to_the_first_token_however_it_is_asked() -> None:
    logits = torch.tensor([[0.0, 2.0, 2.0], [1.0, 0.0, 1.0]], dtype=torch.bfloat16)
    assert argmax_rows(logits) == [argmax(row) for row in logits] == [1, 0]
    assert [sampler().choose(row, [0]) for row in logits] == [1, 0]


def test_the_widest_seed_and_a_far_position_work() -> None:
    assert 0 <= gumbel_argmax(SCORES, 2**64 - 1, 2**31) < len(SCORES)


def test_greedy_with_a_penalty_is_not_plain() -> None:
    assert sampler().is_plain_greedy
    assert not sampler(repetition_penalty=1.1).is_plain_greedy
    assert not sampler(logit_bias={1: 1.0}).is_plain_greedy
    assert not sampler(temperature=0.5).is_plain_greedy
    assert not sampler(min_tokens=1, ends=(3,)).is_plain_greedy


@pytest.mark.parametrize("temperature", [1e-45, 1e-40, 1e-38, 1e-30, 1e-6, 1e-5])
def test_the_smallest_temperatures_choose_the_likeliest_token(temperature: float) -> None:
    logits = torch.from_numpy(SCORES * 50)
    assert sampler(temperature=temperature).choose(logits, [3]) == 3
    assert sampler(temperature=temperature, repetition_penalty=1.5).choose(logits, [0]) == 3


@pytest.mark.parametrize("penalty", [0.01, 100.0])
@pytest.mark.parametrize("temperature", [1e-5, 100.0])
def test_the_widest_parameters_keep_scores_finite(penalty: float, temperature: float) -> None:
    """Logits of 1000 are far beyond any model's."""
    chosen = sampler(repetition_penalty=penalty, temperature=temperature)
    logits = torch.tensor([1000.0, -1000.0, 999.0, 0.0])
    scores = chosen._processors(torch.tensor([[0, 1]]), logits[None].clone())
    assert torch.isfinite(scores).all()
    assert 0 <= chosen.choose(logits, [0, 1]) < 4
