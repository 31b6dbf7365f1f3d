"""Log probabilities of emitted tokens do not depend on drafts, on company or on sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from engine_cases import GREEDY, LENGTH, SAMPLED, base, drafted, knowing, prompt

from decoder_service.logprobs import EmittedLogprob, logprob_of
from decoder_service.model import LoadedModel
from decoder_service.request import GenerationRequest
from decoder_service.sampling import SamplingParams
from tests.verify.decode import Decoded, decode, request


def asking(
    sampling: SamplingParams, seed: int = 1, resumed: Sequence[int] = (), num_top: int = 5
) -> GenerationRequest:
    plain = request(prompt(seed), max_tokens=LENGTH, sampling=sampling, ignore_eos=True, resumed=resumed)
    return replace(plain, logprobs=num_top)


def logprobs_of(decoded: Decoded) -> list[EmittedLogprob]:
    return [each for step in decoded.steps for each in step.logprobs]


def test_they_are_those_of_plain_decoding_bit_for_bit(llama: LoadedModel, sampling: SamplingParams) -> None:
    plain = base(llama, sampling)
    expected = [
        logprob_of(row, token, 5) for row, token in zip(plain.computed.logits, plain.output, strict=True)
    ]
    each = drafted(asking(sampling))
    (alone,) = decode(llama, [asking(sampling)])
    first, second, silent = decode(
        llama, [each, asking(SAMPLED, seed=2), drafted(request(prompt(1)))], knowing(plain)
    )
    assert first.finished.stats.num_accepted > 0
    assert logprobs_of(alone) == logprobs_of(first) == expected
    assert len(logprobs_of(second)) == LENGTH
    assert logprobs_of(silent) == []


def test_they_are_the_models_own_whatever_the_sampling_parameters(llama: LoadedModel) -> None:
    forced = replace(GREEDY, logit_bias={7: 100.0})
    (found,) = decode(llama, [asking(forced)])
    assert found.output == [7] * LENGTH
    for row, each in zip(found.computed.logits, logprobs_of(found), strict=True):
        assert each.logprob == float(torch.log_softmax(row.float(), -1)[7])
    assert any(each.top[0].token != 7 for each in logprobs_of(found))


def test_a_resumed_stream_has_them_for_its_rest(llama: LoadedModel) -> None:
    (whole,) = decode(llama, [asking(GREEDY)])
    (rest,) = decode(llama, [asking(GREEDY, resumed=whole.output[:13])])
    assert logprobs_of(rest) == logprobs_of(whole)[13:]


def test_an_end_inside_an_accepted_run_cuts_them_off_with_the_tokens(llama: LoadedModel) -> None:
    plain = base(llama, GREEDY)
    string = plain.shown[10:13]
    stopped = request(prompt(1), max_tokens=LENGTH, ignore_eos=True, strings=(string,))
    (found,) = decode(llama, [drafted(replace(stopped, logprobs=1))], knowing(plain))
    assert len(logprobs_of(found)) == len(found.output) < LENGTH
