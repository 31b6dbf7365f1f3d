"""Engines over tiny models: drafts and batches change no token and no bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from engine_cases import (
    DTYPES,
    SAMPLED,
    assert_all_equal,
    assert_equal,
    drafted,
    knowing,
    prompt,
    ragged_requests,
)
from tiny_model import CONFIGS, CONTEXT_LEN, EOS, VOCAB, loaded, tiny_model, tiny_network

from decoder_service.model import LoadedModel
from decoder_service.sampling import SamplingParams, gumbel_argmax
from tests.verify.decode import (
    decode,
    decode_alone,
    new_engine,
    prefill,
    request,
    same_bits,
)
from tests.verify.proposals import GarbageSource


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
