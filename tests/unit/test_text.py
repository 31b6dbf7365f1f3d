from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder_service.text import StopMatch, StopStrings, TextStream

BROKEN = "\ufffd"


def decode_bytes(tokens: list[int]) -> str:
    """A byte-level tokenizer: token ids are bytes."""
    return bytes(tokens).decode("utf-8", errors="replace")


def decode_words(tokens: list[int]) -> str:
    """A tokenizer that drops the space before the first word, as SentencePiece does."""
    return " ".join(f"w{token}" for token in tokens)


def pieces_of(text: str, ends: list[int]) -> list[str]:
    cuts = [0, *sorted({end % (len(text) + 1) for end in ends}), len(text)]
    return [text[start:end] for start, end in pairwise(cuts)]


@given(st.text(alphabet=st.characters(exclude_characters=BROKEN, exclude_categories=("Cs",)), max_size=30))
def test_text_is_complete_and_never_shows_part_of_a_character(text: str) -> None:
    stream = TextStream(decode_bytes)
    shown = [stream.push(byte) for byte in text.encode()]
    assert "".join(shown) == text
    assert BROKEN not in "".join(shown)


def test_a_character_of_four_tokens_appears_with_the_last_of_them() -> None:
    stream = TextStream(decode_bytes)
    assert [stream.push(byte) for byte in "a🙂".encode()] == ["a", "", "", "", "🙂"]


def test_bytes_that_are_no_character_are_replaced_once_text_goes_on() -> None:
    stream = TextStream(decode_bytes)
    assert "".join(stream.push(byte) for byte in b"a\xffb\xe2\x82c") == f"a{BROKEN}b{BROKEN}c"


@given(st.text(alphabet="aé東🙂", min_size=1, max_size=12), st.integers(min_value=1, max_value=7), st.data())
def test_every_whole_character_is_shown_at_once_and_no_part_of_one(
    text: str, token_len: int, data: st.DataObject
) -> None:
    """Tokens are runs of bytes: one may hold whole characters and the beginning of another, the last one too."""
    encoded = text.encode()
    encoded = encoded[: data.draw(st.integers(min_value=1, max_value=len(encoded)))]
    pieces = [encoded[start : start + token_len] for start in range(0, len(encoded), token_len)]
    stream = TextStream(lambda tokens: b"".join(pieces[each] for each in tokens).decode(errors="replace"))
    shown = ""
    for token in range(len(pieces)):
        shown += stream.push(token)
        assert shown == b"".join(pieces[: token + 1]).decode(errors="ignore")


def test_text_that_goes_on_after_broken_bytes_is_shown_up_to_the_next_broken_ones() -> None:
    pieces = [b"a", b"\xe2", b"bc\xf0\x9f", b"\x99\x82"]
    stream = TextStream(lambda tokens: b"".join(pieces[each] for each in tokens).decode(errors="replace"))
    assert [stream.push(token) for token in range(4)] == ["a", "", f"{BROKEN}bc", "🙂"]


def test_the_beginning_of_a_character_waits_although_broken_bytes_came_before_it() -> None:
    pieces = [*[b"\xff"] * 7, b"a\xe2", b"\x82\xac"]
    stream = TextStream(lambda tokens: b"".join(pieces[each] for each in tokens).decode(errors="replace"))
    assert [stream.push(token) for token in range(9)] == [*[""] * 7, f"{BROKEN * 7}a", "€"]


def decode_run_of_bytes(tokens: list[int]) -> str:
    """A tokenizer that falls back to bytes: a run of them that is no text is as many broken characters."""
    try:
        return bytes(tokens).decode()
    except UnicodeDecodeError:
        return BROKEN * len(tokens)


def test_a_long_run_of_byte_tokens_shows_each_character_with_its_last_token() -> None:
    stream, text = TextStream(decode_run_of_bytes), "🙂🙃東京é" * 5
    shown = [stream.push(byte) for byte in text.encode()]
    assert [each for each in shown if each] == list(text)


def test_words_keep_the_space_that_a_tokenizer_drops_at_the_start() -> None:
    stream = TextStream(decode_words)
    assert "".join(stream.push(token) for token in range(20)) == decode_words(list(range(20)))


@given(
    st.text(alphabet="ab", max_size=24),
    st.lists(st.text(alphabet="ab", min_size=1, max_size=5), min_size=1, max_size=4),
    st.lists(st.integers(min_value=0, max_value=99), max_size=12),
)
def test_stop_strings_cut_where_a_search_of_the_whole_text_would(
    text: str, strings: list[str], ends: list[int]
) -> None:
    stop, shown, seen = StopStrings(strings), "", ""
    for piece in pieces_of(text, ends):
        seen += piece
        new, match = stop.push(piece)
        shown += new
        found = [(at, string) for string in strings if (at := seen.find(string)) >= 0]
        if found:
            at, string = min(found)
            assert match == StopMatch(string)
            assert shown == seen[:at]
            return
        assert match is None
        assert seen.startswith(shown)
        assert len(seen) - len(shown) < max(map(len, strings))
    assert shown + stop.flush() == text


def test_nothing_is_held_back_without_stop_strings() -> None:
    assert StopStrings(()).push("any text") == ("any text", None)


@pytest.mark.parametrize("split", range(1, 8))
def test_a_stop_string_is_found_across_any_split(split: int) -> None:
    stop = StopStrings(("<end>",))
    text = "ab<end>cd"
    first, early = stop.push(text[: split + 1])
    second, late = stop.push(text[split + 1 :]) if early is None else ("", early)
    assert (first + second, late) == ("ab", StopMatch("<end>"))


def test_text_that_only_began_a_stop_string_is_shown_when_it_goes_on_otherwise() -> None:
    stop = StopStrings(("<end>",))
    assert stop.push("a<en") == ("a", None)
    assert stop.push("try>") == ("<entry>", None)
    assert stop.flush() == ""


def test_what_is_held_at_the_end_is_flushed_once() -> None:
    stop = StopStrings(("<end>",))
    assert stop.push("a<e") == ("a", None)
    assert (stop.flush(), stop.flush()) == ("<e", "")


def test_bytes_that_never_become_a_character_do_not_hold_text_back_forever() -> None:
    decoded: list[int] = []

    def decode(tokens: list[int]) -> str:
        decoded.append(len(tokens))
        return "\ufffd" * len(tokens)

    stream = TextStream(decode)
    shown = "".join(stream.push(token) for token in range(200))
    assert len(shown) > 150
    assert max(decoded) < 32


def test_tokens_without_text_are_not_decoded_again_and_again() -> None:
    decoded: list[int] = []

    def decode(tokens: list[int]) -> str:
        decoded.append(len(tokens))
        return ""

    stream = TextStream(decode)
    assert "".join(stream.push(token) for token in range(200)) == ""
    assert max(decoded) < 32
