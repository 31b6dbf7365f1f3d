"""What a client receives: the same tokens whatever drafts do, whole characters, resumable streams."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from decoder_process import ServiceProcess
from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1.decoder_pb2_grpc import DecoderServiceStub
from draftwell.trie.v1 import trie_pb2
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub
from polling import poll

from decoder_service.client import Client, Drafts, FinishReason, Generation, Sampling, Stop, chat

PROMPTS = ("the model reads", "a draft is a guess", "été déjà 東京", "next: ")
SAMPLED = Sampling(temperature=0.8, top_k=40, top_p=0.95, repetition_penalty=1.1, seed=11)
STOP = Stop(max_tokens=96, ignore_eos=True)
BOTH = Drafts(sources=("own", "index"))
END_TOKEN = 1
BYTES_OF_CHARACTERS = "é東😀"


@pytest.fixture(scope="module")
def stub(decoder_process: ServiceProcess) -> Iterator[DecoderServiceStub]:
    with grpc.insecure_channel(decoder_process.address) as channel:
        yield DecoderServiceStub(channel)


def index_accepted(generation: Generation) -> int:
    return sum(source.num_accepted for source in generation.drafts.sources if source.source == "index")


@pytest.mark.parametrize("sampling", [None, SAMPLED], ids=["greedy", "sampled"])
def test_drafts_and_concurrency_change_no_token(decoder: Client, sampling: Sampling | None) -> None:
    plain = [
        decoder.generate(prompt, sampling=sampling, stop=STOP, drafts=Drafts.none()).result()
        for prompt in PROMPTS
    ]
    with ThreadPoolExecutor(len(PROMPTS)) as pool:
        for _ in range(2):  # the second time the index may know the outputs
            streams = [
                decoder.generate(prompt, sampling=sampling, stop=STOP, drafts=BOTH) for prompt in PROMPTS
            ]
            together = list(pool.map(lambda stream: stream.result(), streams))
            assert [each.token_ids for each in together] == [each.token_ids for each in plain]
            assert [each.text for each in together] == [each.text for each in plain]


def test_an_output_reaches_the_index_in_the_background_and_pays(
    decoder: Client, trie: TrieServiceStub
) -> None:
    drafts = Drafts(sources=("index",), namespace="learning")
    first = decoder.generate("which guesses", stop=STOP, drafts=drafts).result()
    assert first.warnings == (), "the request itself creates the namespace"

    poll(lambda: num_tokens(trie, "learning") >= len(first.token_ids))
    again = decoder.generate("which guesses", stop=STOP, drafts=drafts).result()
    assert again.token_ids == first.token_ids
    assert index_accepted(again) > len(first.token_ids) // 2
    assert again.drafts.num_steps < first.drafts.num_steps


def test_a_request_that_opts_out_is_not_learned(decoder: Client, trie: TrieServiceStub) -> None:
    quiet = Drafts(sources=("own",), namespace="quiet", learn=False)
    decoder.generate("one token after", stop=STOP, drafts=quiet).result()
    loud = Drafts(sources=("own",), namespace="quiet", learn=True)
    decoder.generate("the other", stop=Stop(max_tokens=7, ignore_eos=True), drafts=loud).result()
    poll(lambda: num_tokens(trie, "quiet") >= 7)  # outputs are learned in order
    assert num_tokens(trie, "quiet") == 7


def num_tokens(trie: TrieServiceStub, namespace: str) -> int:
    """Tokens that the index has learned there."""
    listed = trie.ListNamespaces(trie_pb2.ListNamespacesRequest()).namespaces
    return next((each.stats.num_tokens for each in listed if each.name == namespace), 0)


@pytest.mark.parametrize("seed", range(4))
def test_the_texts_of_all_steps_are_the_text_of_all_tokens(decoder: Client, seed: int) -> None:
    """Tokens are drawn among the bytes of a few characters and some letters: many are broken on purpose."""
    allowed = decoder.tokenize(BYTES_OF_CHARACTERS + "ab")
    sampling = Sampling(temperature=1.0, seed=seed, logit_bias=dict.fromkeys(allowed, 100.0))
    stop = Stop(max_tokens=150, ignore_eos=True)
    generation = decoder.generate("x", sampling=sampling, stop=stop, drafts=BOTH).result()
    assert len(generation.token_ids) == 150
    assert set(generation.token_ids) <= set(allowed)
    text = decoder.detokenize(generation.token_ids)
    assert re.search(f"[{BYTES_OF_CHARACTERS}]", text), "the test draws no whole character"
    held_back = text[len(generation.text) :]
    assert text == generation.text + held_back
    assert set(held_back) <= {"\ufffd"}, "only a character that is not complete may be missing at the end"


def test_special_tokens_are_not_in_the_text(decoder: Client) -> None:
    sampling = Sampling(temperature=1.0, seed=3, logit_bias={END_TOKEN: 5.0})
    stop = Stop(max_tokens=100, ignore_eos=True)
    generation = decoder.generate("hello", sampling=sampling, stop=stop).result()
    assert END_TOKEN in generation.token_ids
    spoken = [token for token in generation.token_ids if token > END_TOKEN]
    assert generation.text.rstrip("\ufffd") == decoder.detokenize(spoken).rstrip("\ufffd")
    assert "<|im_end|>" in decoder.detokenize(generation.token_ids)


def test_the_models_end_token_ends_a_stream(decoder: Client) -> None:
    sampling = Sampling(temperature=1.0, seed=3, logit_bias={END_TOKEN: 8.0})
    generation = decoder.generate(chat("hello", system="be brief"), sampling=sampling).result()
    assert generation.finish_reason == FinishReason.STOP_TOKEN
    assert generation.matched_token_id == generation.token_ids[-1] == END_TOKEN


def test_a_stop_string_ends_a_stream_before_its_first_character(decoder: Client) -> None:
    whole = decoder.generate("the model reads", stop=STOP, drafts=Drafts.none()).result()
    string = next(
        whole.text[at : at + 3]
        for at in range(40, len(whole.text))
        if "\ufffd" not in whole.text[at : at + 3]
    )
    stop = Stop(max_tokens=96, ignore_eos=True, strings=("never in the text", string))
    cut = decoder.generate("the model reads", stop=stop, drafts=BOTH).result()
    assert cut.finish_reason == FinishReason.STOP_STRING
    assert cut.matched_string == string
    assert cut.text == whole.text[: whole.text.index(string)]
    assert cut.token_ids == whole.token_ids[: len(cut.token_ids)]


@pytest.mark.parametrize("num_received", [1, 40, 95, 96])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.9, "top_p": 0.9}], ids=["greedy", "sampled"])
def test_a_cut_stream_resumes_with_the_identical_rest(
    stub: DecoderServiceStub, decoder: Client, sampling: dict[str, float], num_received: int
) -> None:
    request = pb.GenerateRequest(
        text="one token after the other",
        sampling=pb.SamplingParams(**sampling),
        stop=pb.StopConditions(max_tokens=96, ignore_eos=True),
    )
    received, seed, text = received_of(stub, request, num_received)
    request.sampling.seed = seed
    plain_request = pb.GenerateRequest()
    plain_request.CopyFrom(request)
    plain_request.drafts.learn = False
    plain, _, plain_text = received_of(stub, plain_request, 96)
    request.resume.token_ids[:] = received
    rest, same_seed, rest_text = received_of(stub, request, 96)
    assert same_seed == seed
    assert received + rest == plain
    assert text + rest_text == plain_text


def received_of(
    stub: DecoderServiceStub, request: pb.GenerateRequest, wanted: int
) -> tuple[list[int], int, str]:
    """Tokens, seed and text of the first steps that have so many tokens; then the stream is cut."""
    call = stub.Generate(request)
    tokens: list[int] = []
    seed, text = 0, ""
    for response in call:
        seed = seed or response.started.seed
        tokens += response.step.token_ids
        text += response.step.text + response.finished.text
        if len(tokens) >= wanted and wanted < 96:
            break
    call.cancel()
    return tokens, seed, text


def test_a_stream_that_was_received_whole_resumes_with_its_end_alone(stub: DecoderServiceStub) -> None:
    request = pb.GenerateRequest(text="the end", stop=pb.StopConditions(max_tokens=10, ignore_eos=True))
    tokens = [token for response in stub.Generate(request) for token in response.step.token_ids]
    request.resume.token_ids[:] = tokens
    responses = list(stub.Generate(request))
    assert [response.WhichOneof("event") for response in responses] == ["started", "finished"]
    assert responses[-1].finished.reason == pb.FINISH_REASON_LENGTH
    assert responses[-1].finished.usage.num_output_tokens == 10
