"""Engines over tiny models: drafts, batches, stops, resumes and cancels change no token and no bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_model import CONFIGS, CONTEXT_LEN, EOS, VOCAB, loaded, one_thread, tiny_model, tiny_network

import decoder_service.engine as engine_module
from decoder_service.accept import Acceptance, follow
from decoder_service.draft import DraftSource, PlannedDraft, Source
from decoder_service.engine import Engine, EngineConfig
from decoder_service.forest import Forest, Int32Array
from decoder_service.model import LoadedModel, Model, ModelOptions
from decoder_service.request import Event, FinishReason, GenerationRequest
from decoder_service.sampling import SamplingParams, gumbel_argmax
from decoder_service.stream import Stream
from tests.verify.decode import (
    CONFIG,
    DRAFTED,
    Decoded,
    decode,
    decode_alone,
    new_engine,
    prefill,
    request,
    same_bits,
)
from tests.verify.proposals import GarbageSource, RecordedSource

DTYPES = [torch.float32, torch.bfloat16]
GREEDY = SamplingParams()
SAMPLED = SamplingParams(temperature=0.8, top_k=30, top_p=0.95, min_p=0.01, repetition_penalty=1.2, seed=11)
MODES = {"greedy": GREEDY, "sampled": SAMPLED}
LENGTH = 40


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def llama() -> LoadedModel:
    """bfloat16, where rounding shows every difference."""
    return loaded(tiny_model("llama", torch.bfloat16))


@pytest.fixture(params=list(MODES))
def sampling(request: pytest.FixtureRequest) -> SamplingParams:
    return MODES[request.param]


def prompt(seed: int, length: int = 20) -> Int32Array:
    return np.random.default_rng(seed).integers(2, VOCAB, length).astype(np.int32)


def drafted(each: GenerationRequest) -> GenerationRequest:
    return replace(each, drafts=DRAFTED)


def knowing(*decoded: Decoded) -> list[DraftSource]:
    return [RecordedSource([each.text for each in decoded], VOCAB)]


def base(model: LoadedModel, sampling: SamplingParams, seed: int = 1, length: int = LENGTH) -> Decoded:
    """A long plain run that no end token stops."""
    return decode(model, [request(prompt(seed), max_tokens=length, sampling=sampling, ignore_eos=True)])[0]


def assert_equal(left: Decoded, right: Decoded) -> None:
    assert left.text.tolist() == right.text.tolist()
    assert left.output == right.output
    assert (left.shown, left.finished.reason) == (right.shown, right.finished.reason)
    assert left.finished.matched_string == right.finished.matched_string
    assert left.finished.matched_token == right.finished.matched_token
    assert same_bits(left.computed.logits, right.computed.logits)
    assert same_bits(left.computed.keys, right.computed.keys)
    assert same_bits(left.computed.values, right.computed.values)


def assert_all_equal(left: Sequence[Decoded], right: Sequence[Decoded]) -> None:
    for one, other in zip(left, right, strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", CONFIGS)
def test_drafted_decoding_equals_plain_decoding(
    kind: str, dtype: torch.dtype, sampling: SamplingParams
) -> None:
    model = loaded(tiny_model(kind, dtype))
    for seed in range(3):
        each = request(prompt(seed), max_tokens=80, sampling=replace(sampling, seed=seed), ignore_eos=True)
        (plain,) = decode(model, [each])
        (knowingly,) = decode(model, [drafted(each)], knowing(plain))
        (blindly,) = decode(model, [drafted(each)], [GarbageSource(VOCAB, seed)])
        assert_equal(knowingly, plain)
        assert_equal(blindly, plain)
        assert len(plain.steps) == 80
        assert len(knowingly.steps) < 40
        computed = prefill(model.model, plain.text, len(plain.text) - 1, rows=120)
        assert same_bits(computed.keys[:, :-1], plain.computed.keys)
        assert same_bits(computed.values[:, :-1], plain.computed.values)


def ragged_requests() -> list[GenerationRequest]:
    """Different lengths, parameters and stops; two prompts are longer than what a step prefills."""
    lengths, outputs = (3, 150, 40, 1, 77, 230, 20), (50, 20, 1, 64, 9, 30, 40)
    return [
        request(
            prompt(seed, length),
            max_tokens=max_tokens,
            sampling=replace(SAMPLED, seed=seed) if seed % 2 else GREEDY,
            ignore_eos=seed % 3 == 0,
        )
        for seed, (length, max_tokens) in enumerate(zip(lengths, outputs, strict=True))
    ]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_ragged_batch_equals_its_requests_alone(dtype: torch.dtype) -> None:
    model = loaded(tiny_model("llama", dtype))
    alone = decode_alone(model, ragged_requests())
    together = decode(model, ragged_requests())
    with_drafts = decode(model, [drafted(each) for each in ragged_requests()], knowing(*alone))
    with_garbage = decode(model, [drafted(each) for each in ragged_requests()], [GarbageSource(VOCAB)])
    mixed = [drafted(each) if seed % 2 else each for seed, each in enumerate(ragged_requests())]
    half_drafted = decode(model, mixed, knowing(*alone))
    for results in (together, with_drafts, with_garbage, half_drafted):
        assert_all_equal(results, alone)


def test_a_request_that_joins_late_equals_itself_alone(llama: LoadedModel, sampling: SamplingParams) -> None:
    first, late = (
        request(prompt(seed), max_tokens=30, sampling=sampling, ignore_eos=True) for seed in (4, 5)
    )
    alone = decode_alone(llama, [first, late])
    engine, outputs = new_engine(llama, knowing(alone[1])), [list[int](), list[int]()]
    engine.add(first, lambda event: outputs[0].extend(getattr(event, "tokens", [])))
    for _ in range(10):
        engine.step()
    engine.add(drafted(late), lambda event: outputs[1].extend(getattr(event, "tokens", [])))
    while not engine.is_idle:
        engine.step()
    assert outputs == [alone[0].output, alone[1].output]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_greedy_output_is_that_of_transformers_generate(kind: str, penalty: float) -> None:
    model, network = loaded(tiny_model(kind)), tiny_network(kind, torch.float32)
    sampling = SamplingParams(repetition_penalty=penalty)
    for seed in range(4):
        each = request(prompt(seed), max_tokens=60, sampling=sampling, min_tokens=5)
        (plain,) = decode(model, [each])
        (fast,) = decode(model, [drafted(each)], knowing(plain))
        theirs = network.generate(
            torch.from_numpy(each.prompt).long()[None],
            attention_mask=torch.ones(1, len(each.prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=60,
            min_new_tokens=5,
            repetition_penalty=penalty,
            eos_token_id=list(EOS),
            pad_token_id=EOS[0],
        )
        assert theirs[0, len(each.prompt) :].tolist() == plain.output == fast.output


def test_samples_are_drawn_from_the_scores_of_transformers_generate() -> None:
    """Each drafted token is the Gumbel argmax of what ``generate`` computes for the text before it."""
    model, network = loaded(tiny_model()), tiny_network("llama", torch.float32)
    (plain,) = decode(model, [request(prompt(1), max_tokens=30, sampling=SAMPLED, ignore_eos=True)])
    (fast,) = decode(
        model, [drafted(request(prompt(1), max_tokens=30, sampling=SAMPLED, ignore_eos=True))], knowing(plain)
    )
    for position in range(20, len(fast.text)):
        theirs = network.generate(
            torch.from_numpy(fast.text[:position]).long()[None],
            attention_mask=torch.ones(1, position, dtype=torch.long),
            do_sample=True,
            max_new_tokens=1,
            temperature=SAMPLED.temperature,
            top_k=SAMPLED.top_k,
            top_p=SAMPLED.top_p,
            min_p=SAMPLED.min_p,
            repetition_penalty=SAMPLED.repetition_penalty,
            pad_token_id=EOS[0],
            output_scores=True,
            return_dict_in_generate=True,
        )
        scores = theirs.scores[0][0].numpy()
        assert gumbel_argmax(scores, SAMPLED.seed, position) == fast.text[position]


def first_end(output: Sequence[int], ends: set[int]) -> int:
    return next((place for place, token in enumerate(output) if token in ends), len(output))


@pytest.mark.parametrize("place", [0, 1, 7, 20])
def test_every_end_token_ends_an_accepted_run(
    llama: LoadedModel, sampling: SamplingParams, place: int
) -> None:
    long = base(llama, sampling)
    ends = {long.output[place], long.output[-1]}
    several = replace(llama, eos_token_ids=tuple(sorted(ends)))
    cut = first_end(long.output, ends)
    each = request(prompt(1), max_tokens=LENGTH, sampling=sampling)
    for found in (decode(several, [each])[0], decode(several, [drafted(each)], knowing(long))[0]):
        assert found.output == long.output[: cut + 1]
        assert found.finished.reason == FinishReason.STOP_TOKEN
        assert found.finished.matched_token == long.output[cut]
        assert found.finished.num_output == cut + 1


def test_stop_token_ids_work_beside_ignored_end_tokens(llama: LoadedModel, sampling: SamplingParams) -> None:
    long = base(llama, sampling)
    stop = long.output[25]
    eager = replace(llama, eos_token_ids=(long.output[2],))
    each = request(
        prompt(1), max_tokens=LENGTH, sampling=sampling, ignore_eos=True, token_ids=frozenset({stop})
    )
    cut = first_end(long.output, {stop})
    for found in (decode(eager, [each])[0], decode(eager, [drafted(each)], knowing(long))[0]):
        assert found.output == long.output[: cut + 1]
        assert found.finished.matched_token == stop


@pytest.mark.parametrize("min_tokens", [1, 5, 12])
def test_end_tokens_wait_for_min_tokens(
    llama: LoadedModel, sampling: SamplingParams, min_tokens: int
) -> None:
    early = replace(llama, eos_token_ids=tuple(set(base(llama, sampling).output[:4])))
    each = request(prompt(1), max_tokens=LENGTH, sampling=sampling, min_tokens=min_tokens)
    (plain,) = decode(early, [each])
    (fast,) = decode(early, [drafted(each)], knowing(plain))
    assert_equal(fast, plain)
    assert len(plain.output) >= min_tokens
    assert not set(plain.output[: min_tokens - 1]) & set(early.eos_token_ids)


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 5, 8, 13, 21, 34])
def test_max_tokens_cuts_an_accepted_run(
    llama: LoadedModel, sampling: SamplingParams, max_tokens: int
) -> None:
    long = base(llama, sampling)
    each = drafted(request(prompt(1), max_tokens=max_tokens, sampling=sampling, ignore_eos=True))
    (found,) = decode(llama, [each], knowing(long))
    assert found.output == long.output[:max_tokens]
    assert found.finished.reason == FinishReason.LENGTH
    assert found.finished.matched_token is None
    assert len(found.steps) <= max(max_tokens // 2, 2)


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("room", [1, 2, 12, 40])
def test_drafts_end_where_the_context_ends(kind: str, room: int, sampling: SamplingParams) -> None:
    model = loaded(tiny_model(kind, torch.bfloat16))
    each = request(prompt(2, CONTEXT_LEN - room), max_tokens=room, sampling=sampling, ignore_eos=True)
    (plain,) = decode(model, [each])
    (fast,) = decode(model, [drafted(each)], knowing(plain))
    (blind,) = decode(model, [drafted(each)], [GarbageSource(VOCAB)])
    assert_equal(fast, plain)
    assert_equal(blind, plain)
    assert len(plain.text) == CONTEXT_LEN


@pytest.mark.parametrize(("start", "length"), [(0, 1), (0, 3), (5, 2), (11, 6), (30, 4)])
def test_a_stop_string_ends_an_accepted_run(
    llama: LoadedModel, sampling: SamplingParams, start: int, length: int
) -> None:
    long = base(llama, sampling)
    string = long.shown[start : start + length]
    at = long.shown.find(string)
    each = request(
        prompt(1), max_tokens=LENGTH, sampling=sampling, ignore_eos=True, strings=("never", string)
    )
    (plain,) = decode(llama, [each])
    (fast,) = decode(llama, [drafted(each)], knowing(long))
    assert_equal(fast, plain)
    assert fast.shown == long.shown[:at]
    assert fast.finished.reason == FinishReason.STOP_STRING
    assert fast.finished.matched_string == string
    assert fast.output == long.output[: len(fast.output)]


def test_text_that_began_a_stop_string_is_shown_at_the_end(llama: LoadedModel) -> None:
    long = base(llama, GREEDY)
    each = request(prompt(1), max_tokens=LENGTH, ignore_eos=True, strings=(long.shown[-3:] + "!",))
    (fast,) = decode(llama, [drafted(each)], knowing(long))
    assert (fast.shown, fast.finished.reason) == (long.shown, FinishReason.LENGTH)


@pytest.mark.parametrize("place", [0, 1, 2, 17, 38, 39])
def test_a_resumed_stream_goes_on_as_if_never_broken(
    llama: LoadedModel, sampling: SamplingParams, place: int
) -> None:
    long = base(llama, sampling)
    each = request(
        prompt(1), max_tokens=LENGTH, sampling=sampling, ignore_eos=True, resumed=long.output[:place]
    )
    for found in (decode(llama, [each])[0], decode(llama, [drafted(each)], knowing(long))[0]):
        assert found.output == long.output[place:]
        assert long.shown.endswith(found.shown)
        assert len(found.shown) == len(long.shown) - len(
            llama.tokenizer.decode(long.output[:place], skip_special_tokens=True)
        )
        assert found.finished.num_output == LENGTH
        assert same_bits(found.computed.logits, long.computed.logits[place:])
        assert same_bits(found.computed.keys, long.computed.keys)
        assert same_bits(found.computed.values, long.computed.values)


@pytest.mark.parametrize("place", [10, 11, 12, 13])
def test_a_stop_string_is_found_across_the_break_of_a_stream(llama: LoadedModel, place: int) -> None:
    long = base(llama, GREEDY)
    string = long.shown[10:14]
    each = request(
        prompt(1), max_tokens=LENGTH, ignore_eos=True, strings=(string,), resumed=long.output[:place]
    )
    (found,) = decode(llama, [drafted(each)], knowing(long))
    assert found.finished.reason == FinishReason.STOP_STRING
    assert found.finished.num_output == 14
    assert found.shown == ""


def test_a_stream_that_was_complete_ends_at_once(llama: LoadedModel) -> None:
    long = base(llama, GREEDY)
    each = request(prompt(1), max_tokens=LENGTH, ignore_eos=True, resumed=long.output)
    (found,) = decode(llama, [drafted(each)])
    assert (found.output, found.shown, found.steps) == ([], "", [])
    assert (found.finished.reason, found.finished.num_output) == (FinishReason.LENGTH, LENGTH)


@pytest.mark.parametrize("at_step", [1, 2, 5])
def test_a_cancelled_request_is_gone_at_the_next_step_and_harms_nobody(
    llama: LoadedModel, sampling: SamplingParams, at_step: int
) -> None:
    others = [request(prompt(seed), max_tokens=30, sampling=sampling) for seed in (6, 7)]
    alone = decode_alone(llama, others)
    engine, events = new_engine(llama, knowing(*alone)), list[Event]()
    outputs: list[list[Event]] = [[], []]
    doomed = engine.add(drafted(request(prompt(8, 150), max_tokens=300, ignore_eos=True)), events.append)
    for each, output in zip(others, outputs, strict=True):
        engine.add(drafted(each), output.append)
    for _ in range(at_step):
        engine.step()
    num_events, num_free = len(events), llama.model.cache.num_free_blocks
    doomed.is_cancelled = True
    engine.step()
    assert doomed not in engine.streams()
    assert llama.model.cache.num_free_blocks > num_free
    while not engine.is_idle:
        engine.step()
    assert len(events) == num_events
    for output, expected in zip(outputs, alone, strict=True):
        assert [token for event in output for token in getattr(event, "tokens", [])] == expected.output


def test_a_request_waits_until_the_cache_has_room() -> None:
    options = ModelOptions(torch.float32, torch.device("cpu"), 256, num_cache_positions=256, max_rows=160)
    model = loaded(Model(tiny_network("llama", torch.float32), options))
    requests = [request(prompt(seed, 60), max_tokens=60, ignore_eos=True) for seed in range(4)]
    alone = decode_alone(model, requests)
    most_waiting = 0

    def watch(engine: Engine) -> None:
        nonlocal most_waiting
        most_waiting = max(most_waiting, engine.num_waiting)

    together = decode(model, requests, watch=watch)
    assert most_waiting >= 2
    assert_all_equal(together, alone)


def test_a_request_whose_numbers_are_not_finite_harms_nobody() -> None:
    """Its prompt holds a token whose embedding is NaN; its neighbours keep every bit."""
    model = loaded(tiny_model("llama", torch.bfloat16))
    others = [request(prompt(seed), max_tokens=20, sampling=SAMPLED, ignore_eos=True) for seed in (3, 4)]
    alone = decode_alone(model, others)
    poison = min(set(range(2, VOCAB)) - {token for each in alone for token in each.text.tolist()})
    model.model.network.get_input_embeddings().weight.data[poison] = float("nan")
    broken = request(np.array([5, poison, 9], np.int32), max_tokens=20, ignore_eos=True)
    results = decode(model, [broken, *map(drafted, others)], knowing(*alone))
    assert len(results[0].output) == 20
    assert_all_equal(results[1:], alone)


def test_counts_and_sources_of_a_request_add_up(llama: LoadedModel) -> None:
    long = base(llama, GREEDY)
    each = drafted(request(prompt(1), max_tokens=LENGTH, ignore_eos=True))
    (fast,) = decode(llama, [each], knowing(long))
    stats, sources = fast.finished.stats, [source for step in fast.steps for source in step.sources]
    assert stats.num_steps == len(fast.steps) == sum(stats.accepted_len_histogram)
    assert stats.num_drafted == sum(step.num_drafted for step in fast.steps) == sum(stats.drafted_by.values())
    assert stats.num_accepted == sum(stats.accepted_by.values()) == LENGTH - sources.count(Source.MODEL)
    assert stats.accepted_by == {source: sources.count(source) for source in stats.accepted_by}
    assert stats.num_accepted == sum(
        length * count for length, count in enumerate(stats.accepted_len_histogram)
    )


@pytest.mark.parametrize("max_nodes", [0, 1, 5])
def test_a_request_gets_no_more_draft_nodes_than_it_allows(llama: LoadedModel, max_nodes: int) -> None:
    long = base(llama, GREEDY)
    choice = replace(DRAFTED, max_nodes=max_nodes)
    each = replace(request(prompt(1), max_tokens=LENGTH, ignore_eos=True), drafts=choice)
    (found,) = decode(llama, [each], knowing(long))
    assert max(step.num_drafted for step in found.steps) == max_nodes
    assert_equal(found, long)


def test_a_source_that_a_request_does_not_name_gives_it_no_drafts(llama: LoadedModel) -> None:
    long = base(llama, GREEDY)
    choice = replace(DRAFTED, sources=frozenset({Source.OWN}))
    each = replace(request(prompt(1), max_tokens=LENGTH, ignore_eos=True), drafts=choice)
    (found,) = decode(llama, [each], knowing(long))
    assert Source.INDEX not in found.finished.stats.drafted_by
    assert_equal(found, long)


def test_a_step_takes_no_more_rows_than_it_may(llama: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    config = EngineConfig(max_streams=3, prefill_rows=32, draft_nodes=10, min_probability=0.0)
    rows: list[int] = []
    forward = llama.model.forward

    def counted(steps: Sequence[Any]) -> Any:
        rows.append(sum(len(each.forest) for each in steps))
        return forward(steps)

    alone = decode_alone(llama, ragged_requests())
    monkeypatch.setattr(llama.model, "forward", counted)
    found = decode(llama, [drafted(each) for each in ragged_requests()], knowing(*alone), config)
    assert_all_equal(found, alone)
    assert 0 < max(rows) <= 32 + 3 + 10


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


def test_a_draft_that_is_cut_keeps_only_nodes_with_their_parents() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        size = int(generator.integers(0, 20))
        parents = np.array([int(generator.integers(-1, node)) for node in range(size)], dtype=np.int32)
        draft = PlannedDraft(
            np.arange(size, dtype=np.int32),
            parents,
            np.full(size, 2, dtype=np.int8),
            np.linspace(1, 0.5, size, dtype=np.float32),
        )
        max_nodes, deepest = int(generator.integers(0, 22)), int(generator.integers(-1, 6))
        cut = engine_module._cut(draft, max_nodes, deepest)
        whole, kept = Forest.of(draft.tokens, draft.parents), Forest.of(cut.tokens, cut.parents)
        assert len(cut) == min(max_nodes, int((whole.depths <= deepest).sum()))
        for node in range(len(cut)):  # the tokens are the nodes' numbers in the whole draft
            assert cut.tokens[kept.path_to(node)].tolist() == whole.path_to(int(cut.tokens[node]))
            assert kept.depths[node] <= deepest


def test_the_engines_default_configuration_of_these_tests_fills_its_budget(llama: LoadedModel) -> None:
    """Without this the other tests would compare plain decoding with itself."""
    long = base(llama, GREEDY)
    each = drafted(request(prompt(1), max_tokens=LENGTH, ignore_eos=True))
    (fast,) = decode(llama, [each], knowing(long))
    (blind,) = decode(llama, [each], [GarbageSource(VOCAB)])
    assert np.mean([step.num_drafted for step in blind.steps]) > CONFIG.draft_nodes / 4
    assert len(fast.steps) < LENGTH / 3
