"""A draft model changes no token and no bit, whatever it guesses, and saves steps where it guesses well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from engine_cases import DTYPES, GREEDY, SAMPLED, assert_all_equal, assert_equal, prompt, ragged_requests
from tiny_model import CONFIGS, CONTEXT_LEN, VOCAB, loaded, tiny_model, tiny_network

from decoder_service.calibration import Calibration
from decoder_service.draft import DraftAsk, DraftTree, Source
from decoder_service.drafts.lookahead import LookaheadSource
from decoder_service.drafts.model import DraftModelOptions, DraftModelSource
from decoder_service.model import LoadedModel, Model, ModelOptions
from decoder_service.request import DraftChoice, GenerationRequest
from decoder_service.sampling import Sampler, SamplingParams
from decoder_service.step_drafts import StepDrafts
from tests.verify.decode import Decoded, decode, decode_alone, new_engine, request
from tests.verify.proposals import GarbageSource

ALONE = frozenset({Source.DRAFT_MODEL})
CHAIN, TREE = DraftModelOptions(7, 1, 0.0), DraftModelOptions(5, 4, 0.0)
SHAPES = {"chain": CHAIN, "tree": TREE}
LENGTH = 120
OTHER_WEIGHTS = 99  # a seed


def truncated(dtype: torch.dtype, num_layers: int = 1, num_cache_positions: int = 4 * CONTEXT_LEN) -> Model:
    """The first layers of the tiny Llama: a draft model that is right now and then."""
    network = tiny_network("llama", dtype)
    del network.model.layers[num_layers:]
    network.config.num_hidden_layers = num_layers
    options = ModelOptions(dtype, torch.device("cpu"), CONTEXT_LEN, num_cache_positions, max_rows=48)
    return Model(network, options)


def by_model(
    each: GenerationRequest, sources: frozenset[Source] = ALONE, max_nodes: int = 24
) -> GenerationRequest:
    return replace(each, drafts=DraftChoice(sources, max_nodes, "", learn=False))


def drafting(model: Model, options: DraftModelOptions) -> DraftModelSource:
    """The source, as sure of itself as it is before it has seen anything."""
    return DraftModelSource(model, Calibration(), options)


def draft(source: DraftModelSource, *asks: DraftAsk) -> list[DraftTree]:
    source.begin(asks)
    return source.collect()


def path_of(tree: DraftTree) -> list[int]:
    """The best token of each level."""
    return tree.tokens[tree.orders == 1].tolist()


@pytest.fixture(params=list(SHAPES))
def options(request: pytest.FixtureRequest) -> DraftModelOptions:
    return SHAPES[request.param]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", CONFIGS)
def test_the_target_as_its_own_draft_is_believed(
    kind: str, dtype: torch.dtype, sampling: SamplingParams
) -> None:
    model = loaded(tiny_model(kind, dtype))
    each = request(prompt(1), max_tokens=LENGTH, sampling=sampling, ignore_eos=True)
    (plain,) = decode(model, [each])
    source = drafting(tiny_model(kind, dtype), CHAIN)
    (fast,) = decode(model, [by_model(each)], [source])
    assert_equal(fast, plain)
    stats = fast.finished.stats
    assert stats.num_accepted >= 0.97 * stats.num_drafted
    assert len(fast.steps) <= LENGTH / (CHAIN.depth + 1) + 2
    assert stats.accepted_by == {Source.DRAFT_MODEL: stats.num_accepted}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_model_of_other_weights_changes_nothing(
    kind: str, dtype: torch.dtype, sampling: SamplingParams, options: DraftModelOptions
) -> None:
    model = loaded(tiny_model(kind, dtype))
    each = request(prompt(1), max_tokens=60, sampling=sampling, ignore_eos=True)
    (plain,) = decode(model, [each])
    other = tiny_model(kind, dtype, seed=OTHER_WEIGHTS)
    (fast,) = decode(model, [by_model(each)], [drafting(other, options)])
    assert_equal(fast, plain)
    assert fast.finished.stats.drafted_by.keys() == {Source.DRAFT_MODEL}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_truncated_model_changes_nothing_and_saves_steps(
    dtype: torch.dtype, sampling: SamplingParams, options: DraftModelOptions
) -> None:
    model = loaded(tiny_model("llama", dtype))
    each = request(prompt(1), max_tokens=LENGTH, sampling=sampling, ignore_eos=True)
    (plain,) = decode(model, [each])
    (fast,) = decode(model, [by_model(each)], [drafting(truncated(dtype), options)])
    assert_equal(fast, plain)
    assert len(fast.steps) < len(plain.steps)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_ragged_batch_equals_its_requests_alone(dtype: torch.dtype, options: DraftModelOptions) -> None:
    model = loaded(tiny_model("llama", dtype))
    requests = ragged_requests()
    alone = decode_alone(model, requests)
    everything = frozenset({Source.DRAFT_MODEL, Source.LOOKAHEAD, Source.OWN, Source.INDEX})

    def source() -> DraftModelSource:
        return drafting(truncated(dtype), options)

    together = decode(model, [by_model(each) for each in requests], [source()])
    combined = decode(
        model,
        [by_model(each, everything) for each in requests],
        [source(), LookaheadSource(), GarbageSource(VOCAB)],
    )
    half = decode(
        model, [by_model(each) if seed % 2 else each for seed, each in enumerate(requests)], [source()]
    )
    for results in (together, combined, half):
        assert_all_equal(results, alone)


@pytest.mark.parametrize("room", [1, 2, 3, 12])
@pytest.mark.parametrize("draft_context_len", [CONTEXT_LEN, CONTEXT_LEN - 5, 64])
def test_guesses_end_where_either_context_ends(
    room: int, draft_context_len: int, options: DraftModelOptions
) -> None:
    """Learned positions: there are no others."""
    model = loaded(tiny_model("gpt2", torch.bfloat16))
    each = request(prompt(2, CONTEXT_LEN - room), max_tokens=room, ignore_eos=True)
    (plain,) = decode(model, [each])
    limits = ModelOptions(torch.bfloat16, torch.device("cpu"), draft_context_len, CONTEXT_LEN, max_rows=48)
    own = Model(tiny_network("gpt2", torch.bfloat16), limits)
    (fast,) = decode(model, [by_model(each)], [drafting(own, options)])
    assert_equal(fast, plain)


def test_a_cache_that_is_too_small_leaves_requests_without_a_draft(llama: LoadedModel) -> None:
    requests = [request(prompt(seed, 40), max_tokens=80, ignore_eos=True) for seed in range(4)]
    alone = decode_alone(llama, requests)
    limits = ModelOptions(torch.bfloat16, torch.device("cpu"), 128, 128, max_rows=48)
    small = Model(tiny_network("llama", torch.bfloat16), limits)
    num_blocks = small.cache.num_free_blocks
    together = decode(llama, [by_model(each) for each in requests], [drafting(small, CHAIN)])
    assert_all_equal(together, alone)
    blind = [sum(step.num_drafted == 0 for step in each.steps) for each in together]
    assert min(blind) <= 3
    assert max(blind) > 20
    assert small.cache.num_free_blocks == num_blocks


def test_requests_that_end_or_are_dropped_free_the_draft_models_cache(llama: LoadedModel) -> None:
    own = truncated(torch.bfloat16)
    num_free, in_use = own.cache.num_free_blocks, list[int]()
    engine = new_engine(llama, [drafting(own, TREE)])
    kept, dropped = (
        engine.add(by_model(request(prompt(seed), max_tokens=40, ignore_eos=True)), lambda event: None)
        for seed in range(2)
    )
    while not engine.is_idle:
        engine.step()
        dropped.is_cancelled = kept.num_output > 10
        in_use.append(num_free - own.cache.num_free_blocks)
    assert kept.num_output == 40 > dropped.num_output
    assert max(in_use) > in_use[-2] > in_use[-1] == 0


def test_a_long_prompt_is_read_in_pieces_and_keeps_nobody_waiting(
    llama: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = truncated(torch.bfloat16, num_layers=2)
    source, rows = drafting(own, CHAIN), list[int]()
    forward = own.forward

    def counted(steps: Sequence[object]) -> object:
        rows.append(sum(len(each.forest) for each in steps))  # type: ignore[attr-defined]
        return forward(steps)  # type: ignore[arg-type]

    monkeypatch.setattr(own, "forward", counted)
    short, long = (DraftAsk(number, prompt(number, length), 24, "") for number, length in ((1, 8), (2, 120)))
    lengths = [[len(tree) for tree in draft(source, long, short)] for _ in range(3)]
    assert lengths == [[0, CHAIN.depth], [0, CHAIN.depth], [CHAIN.depth, CHAIN.depth]]
    assert max(rows) == own.max_rows
    rows.clear()
    source.close(2)
    assert len(draft(source, long)[0]) == CHAIN.depth
    assert rows == [48, 48, 24, *[1] * (CHAIN.depth - 1)]


def test_only_what_is_new_is_read(llama: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    own = truncated(torch.bfloat16)
    source, texts = drafting(own, CHAIN), list[list[int]]()
    forward = own.forward

    def noted(steps: Sequence[object]) -> object:
        texts.extend(each.forest.tokens.tolist() for each in steps)  # type: ignore[attr-defined]
        return forward(steps)  # type: ignore[arg-type]

    monkeypatch.setattr(own, "forward", noted)
    text = prompt(1, 30)
    path = path_of(draft(source, DraftAsk(1, text, 24, ""))[0])
    assert texts == [text.tolist(), *[[token] for token in path[:-1]]]
    for came_true, read in ((path[:3], []), (path, path[-1:])):
        texts.clear()
        wrong = (path[3] + 1) % VOCAB
        grown = np.array([*text, *came_true, wrong], dtype=np.int32)
        again = path_of(draft(source, DraftAsk(1, grown, 24, ""))[0])
        assert texts[0][-1:] == [wrong]
        fresh = drafting(truncated(torch.bfloat16), CHAIN)
        assert path_of(draft(fresh, DraftAsk(1, grown, 24, ""))[0]) == again
        assert len(texts[0]) <= len(came_true) + 1
        assert texts[0][: len(read)] != [] or not read


def test_a_tree_says_what_the_model_thinks_of_each_token() -> None:
    own = truncated(torch.float32)
    ask = DraftAsk(1, prompt(3), 24, "")
    (tree,) = draft(drafting(own, TREE), ask)
    (chain,) = draft(drafting(truncated(torch.float32), replace(CHAIN, depth=5)), ask)
    assert len(tree) == 20
    assert path_of(tree) == chain.tokens.tolist()
    assert tree.orders.tolist() == [1, 2, 3, 4] * 5
    assert tree.parents.tolist() == [-1] * 4 + [0] * 4 + [4] * 4 + [8] * 4 + [12] * 4
    levels = tree.opinions[:, 0].reshape(5, 4)
    assert (np.diff(levels, axis=1) <= 0).all()
    assert ((levels > 0) & (levels < 1)).all()
    assert (levels.sum(axis=1) < 1.001).all()
    assert (tree.counts == np.rint(64 * tree.opinions[:, 0])).all()
    assert set(tree.totals.tolist()) == {64}
    assert tree.newest == ask.text[-1]


def test_a_draft_is_as_large_as_it_may_be() -> None:
    source = drafting(truncated(torch.float32), TREE)
    text = prompt(3)
    sizes = [len(draft(source, DraftAsk(1, text, most, ""))[0]) for most in (0, 1, 6, 20, 50)]
    assert sizes == [0, 1, 6, 20, 20]
    depths = [len(path_of(draft(source, DraftAsk(1, text, 50, "", max_depth=most))[0])) for most in range(7)]
    assert depths == [0, 1, 2, 3, 4, 5, 5]


def test_guessing_ends_where_the_model_doubts() -> None:
    text = prompt(3)
    paths = [
        path_of(
            draft(
                drafting(truncated(torch.float32), DraftModelOptions(12, 1, least)),
                DraftAsk(1, text, 24, ""),
            )[0]
        )
        for least in (0.0, 0.3, 1.0)
    ]
    assert len(paths[0]) == 12 > len(paths[1]) >= len(paths[2]) == 1
    assert paths[0][: len(paths[1])] == paths[1]


def test_what_became_of_earlier_guesses_decides_how_far_it_guesses() -> None:
    ask = DraftAsk(1, prompt(3), 24, "")
    lengths = []
    for came_true in (False, True):
        calibration = Calibration()
        source = DraftModelSource(truncated(torch.float32), calibration, replace(CHAIN, min_probability=0.3))
        for _ in range(50):
            (tree,) = draft(source, ask)
            hits = np.full(len(tree), came_true)
            calibration.observe(Source.DRAFT_MODEL, tree.orders, tree.counts, tree.totals, hits)
        lengths.append(len(draft(source, ask)[0]))
    assert lengths == [1, CHAIN.depth]


def test_a_model_whose_guesses_fail_is_asked_less_and_less(llama: LoadedModel) -> None:
    other = tiny_model("llama", torch.bfloat16, seed=OTHER_WEIGHTS)
    each = request(prompt(1), max_tokens=400, ignore_eos=True)
    (plain,) = decode(llama, [each])
    (fast,) = decode(llama, [by_model(each)], [drafting(other, DraftModelOptions(8, 1, 0.5))])
    assert_equal(fast, plain)
    drafted = [step.num_drafted > 0 for step in fast.steps]
    assert sum(drafted[:100]) > 4
    assert sum(drafted[200:]) < 20


def test_a_sampled_request_is_guessed_with_its_own_noise() -> None:
    text, model = prompt(4), tiny_model("llama", torch.float32)
    each = request(text, max_tokens=CHAIN.depth, sampling=SAMPLED, ignore_eos=True)
    (plain,) = decode(loaded(model), [each])
    sampler = Sampler(SAMPLED, len(text), 0, ())
    source = drafting(tiny_model("llama", torch.float32), CHAIN)
    greedy, sampled = draft(source, DraftAsk(1, text, 24, ""), DraftAsk(2, text, 24, "", chooser=sampler))
    assert path_of(sampled) == plain.output
    assert path_of(greedy) != plain.output


def test_shared_noise_makes_a_sampled_draft_model_worth_more(monkeypatch: pytest.MonkeyPatch) -> None:
    sampling = replace(SAMPLED, temperature=2.0, repetition_penalty=1.0)
    model = loaded(tiny_model("llama", torch.bfloat16))
    each = by_model(request(prompt(5), max_tokens=LENGTH, sampling=sampling, ignore_eos=True))

    def run() -> Decoded:
        source = drafting(tiny_model("llama", torch.bfloat16), CHAIN)
        return decode(model, [each], [source])[0]

    shared = run()
    ask_of = StepDrafts._draft_ask
    monkeypatch.setattr(
        StepDrafts, "_draft_ask", lambda self, stream: replace(ask_of(self, stream), chooser=None)
    )
    blind = run()
    assert_equal(shared, blind)
    assert len(shared.steps) < 0.5 * len(blind.steps)


class _Raising:
    def scores(self, logits: torch.Tensor, history: Sequence[int]) -> np.ndarray:
        raise RuntimeError("no scores")


def test_a_request_whose_choice_fails_gets_no_draft_and_the_others_theirs() -> None:
    source = drafting(truncated(torch.float32), CHAIN)
    failing = DraftAsk(1, prompt(1), 24, "", chooser=_Raising())
    assert [len(tree) for tree in draft(source, failing, DraftAsk(2, prompt(2), 24, ""))] == [0, CHAIN.depth]


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf")])
def test_a_model_that_computes_no_numbers_changes_nothing(llama: LoadedModel, poison: float) -> None:
    own = tiny_model("llama", torch.bfloat16)
    own.network.lm_head.weight[5] = poison
    each = request(prompt(1), max_tokens=20, sampling=GREEDY, ignore_eos=True)
    (plain,) = decode(llama, [each])
    (fast,) = decode(llama, [by_model(each)], [drafting(own, TREE)])
    assert_equal(fast, plain)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("depth", 0, "depth 0 is not at least 1"),
        ("width", 0, "width 0 is not at least 1"),
        ("min_probability", 1.5, "probability 1.5 is not between 0 and 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(field: str, value: float, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        replace(CHAIN, **{field: value})
