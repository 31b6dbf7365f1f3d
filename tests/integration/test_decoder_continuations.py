"""Several continuations of one request, log probabilities and the echoed prompt, over the wire."""

from __future__ import annotations

import pytest

from decoder_service.client import Client, Drafts, FinishReason, Sampling, Stop, chat

STOP = Stop(max_tokens=40, ignore_eos=True)
OWN = Drafts(sources=("own",), learn=False)
LAST_SEED = 2**64 - 1


def test_each_continuation_is_the_one_that_its_seed_gives_alone(decoder: Client) -> None:
    sampling = Sampling(temperature=0.9, seed=LAST_SEED - 1)
    together = decoder.generate("the model", sampling=sampling, stop=STOP, drafts=OWN, n=4).results()
    seeds = [LAST_SEED - 1, LAST_SEED, 0, 1]
    assert [(each.index, each.seed) for each in together] == list(enumerate(seeds))
    for seed, continuation in zip(seeds, together, strict=True):
        alone = decoder.generate(
            "the model", sampling=Sampling(temperature=0.9, seed=seed), stop=STOP, drafts=Drafts.none()
        ).result()
        assert (continuation.token_ids, continuation.text) == (alone.token_ids, alone.text)
    assert len({each.token_ids for each in together}) == 4


def test_greedy_continuations_are_equal(decoder: Client) -> None:
    first, second = decoder.generate("the model", stop=STOP, n=2).results()
    assert first.token_ids == second.token_ids


def test_abort_ends_all_continuations(decoder: Client) -> None:
    stream = decoder.generate("the model", stop=Stop(max_tokens=3000, ignore_eos=True), n=3)
    next(stream)
    assert decoder.abort(stream.request_id) == 3
    assert [each.finish_reason for each in stream.results()] == [FinishReason.ABORTED] * 3


@pytest.mark.parametrize("drafts", [OWN, Drafts.none()], ids=["own", "plain"])
def test_each_token_has_its_log_probability(decoder: Client, drafts: Drafts) -> None:
    generation = decoder.generate("the model reads", stop=STOP, drafts=drafts, logprobs=3).result()
    assert len(generation.logprobs) == len(generation.token_ids) == 40
    for token, each in zip(generation.token_ids, generation.logprobs, strict=True):
        assert each.top[0] == (token, each.logprob), "greedy takes the likeliest"
        assert [one.logprob for one in each.top] == sorted((one.logprob for one in each.top), reverse=True)
        assert len(each.top) == 3


def test_log_probabilities_are_not_sent_unasked(decoder: Client) -> None:
    assert decoder.generate("the model", stop=STOP).result().logprobs == ()


def test_the_prompt_is_echoed_as_the_model_saw_it(decoder: Client) -> None:
    question = chat("hello", system="be brief")
    generation = decoder.generate(question, stop=STOP, echo=True).result()
    assert generation.prompt_token_ids == decoder.tokenize(question)
    assert generation.prompt_text == decoder.detokenize(generation.prompt_token_ids)
    assert decoder.generate(question, stop=STOP).result().prompt_token_ids == ()


def test_a_priority_is_taken(decoder: Client) -> None:
    assert decoder.generate("x", stop=STOP, priority=100).result().usage.num_output_tokens == 40
