"""A stream that broke goes on elsewhere as if it never had."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from engine_cases import GREEDY, LENGTH, base, drafted, knowing, prompt

from decoder_service.accept import Acceptance
from decoder_service.model import LoadedModel
from decoder_service.request import Event, FinishReason
from decoder_service.sampling import SamplingParams
from decoder_service.share import NO_DRAFT
from decoder_service.stream import Stream
from tests.verify.decode import (
    decode,
    request,
    same_bits,
)


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


TEXT = "né 🙂 <en> <<end 東京 <en"
STRINGS = ("<end>", "🙂!")


def bytes_stream(resumed: Sequence[int] = ()) -> tuple[Stream, list[Event]]:
    """A stream whose tokens are bytes."""
    each = request(np.array([1], np.int32), max_tokens=len(TEXT.encode()), strings=STRINGS, resumed=resumed)
    seen: list[Event] = []
    return Stream(1, each, (), lambda tokens: bytes(tokens).decode(errors="replace"), seen.append), seen


def shown_by(stream: Stream, tokens: Sequence[int]) -> str:
    """The text of all steps that emit one token each."""
    return "".join(stream.emit(Acceptance([0], [token]), NO_DRAFT, 1).text for token in tokens)


@pytest.mark.parametrize("place", range(len(TEXT.encode()) + 1))
def test_text_that_was_held_back_when_a_stream_broke_comes_after_it(place: int) -> None:
    """The replica finds out from the tokens which text was sent: the beginnings of characters and stop strings wait."""
    tokens = list(TEXT.encode())
    first, _ = bytes_stream()
    before = shown_by(first, tokens[:place])
    second, _ = bytes_stream(resumed=tokens[:place])
    after = shown_by(second, tokens[place:])
    assert before + after + second.finished([]).text == TEXT
    assert second.finish_reason == FinishReason.LENGTH


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
