from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder_service.client import TokenSource
from decoder_service.commands.token_text import Token, TokenText, TokenTexts, cut

BROKEN = "\ufffd"


@pytest.mark.parametrize(
    ("text", "pieces", "parts"),
    [
        ("a cat", ["a", " cat"], ["a", " cat"]),
        ("a cat", ["a", "cat"], ["a", " cat"]),
        ("né!", ["n", BROKEN, BROKEN, "!"], ["n", "", "é", "!"]),
        ("né", ["n", BROKEN, BROKEN], ["n", "", "é"]),
        ("ab", ["a", "<special>", "b"], ["a", "", "b"]),
        ("a", ["a", "b"], ["a"]),
        ("", ["a", "b"], []),
        ("left", [], []),
    ],
)
def test_text_is_cut_at_the_tokens_own_texts(text: str, pieces: list[str], parts: list[str]) -> None:
    assert cut(text, pieces) == parts


def token(byte: int, step: int) -> Token:
    return Token(bytes([byte]).decode(errors="replace"), TokenSource.OWN, step)


def shown(texts: list[TokenText]) -> str:
    return "".join(part.text for part in texts)


@given(st.text(max_size=40), st.lists(st.integers(1, 9), min_size=1, max_size=40))
def test_text_of_byte_tokens_in_any_steps_is_shown_whole_and_in_order(text: str, sizes: list[int]) -> None:
    decode = codecs.getincrementaldecoder("utf-8")().decode
    texts, data, at, output, steps = TokenTexts(), text.encode(), 0, "", []
    for number in range(len(data)):
        chunk = data[at : at + sizes[number % len(sizes)]]
        at += len(chunk)
        parts = texts.feed([token(byte, number) for byte in chunk], decode(chunk))
        output += shown(parts)
        steps += [part.token.step for part in parts]
    assert output == text
    assert steps == sorted(steps)


@given(st.text(max_size=30), st.lists(st.text(max_size=4), min_size=1, max_size=20))
def test_pieces_that_do_not_fit_the_text_lose_none_of_it(text: str, pieces: list[str]) -> None:
    parts = cut(text, pieces)
    assert "".join(parts) == text
    assert len(parts) <= len(pieces)


def test_a_token_waits_until_its_text_is_certain() -> None:
    texts = TokenTexts()
    first, second = "🙂".encode()[:2], "🙂".encode()[2:]
    assert texts.feed([token(byte, 0) for byte in first], "") == []
    parts = texts.feed([token(byte, 1) for byte in second], "🙂")
    assert shown(parts) == "🙂"
    assert [part.text for part in parts] == ["", "", "", "🙂"]


def test_text_without_a_waiting_token_is_still_shown() -> None:
    assert shown(TokenTexts().feed([], "tail")) == "tail"
