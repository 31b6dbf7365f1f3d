"""Which part of the streamed text each token contributed.

Text arrives by steps and lags behind the tokens; a token alone may be half a character. So the text is
cut at the tokens' own texts, and a character that several tokens make up is given to the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from decoder_service.client import TokenSource

_INCOMPLETE = "\ufffd"  # in the text of a token that holds part of a character
_BYTES_PER_CHARACTER = 4


@dataclass(frozen=True, slots=True)
class Token:
    """A token that was emitted."""

    piece: str  # its own text
    source: TokenSource
    step: int  # index of the step that emitted it


@dataclass(frozen=True, slots=True)
class TokenText:
    """A token and its part of the text."""

    text: str
    token: Token


class TokenTexts:
    """Cuts a stream of text by token. The texts it returns, joined, are the text it was fed."""

    def __init__(self) -> None:
        self._waiting: list[Token] = []

    def feed(self, tokens: Sequence[Token], text: str) -> list[TokenText]:
        """Take what one step emitted; return the tokens whose text is there by now."""
        self._waiting += tokens
        if text and not self._waiting:
            return [TokenText(text, Token(text, TokenSource.MODEL, -1))]
        parts = cut(text, [token.piece for token in self._waiting])
        ready, self._waiting = self._waiting[: len(parts)], self._waiting[len(parts) :]
        return [TokenText(part, token) for part, token in zip(parts, ready, strict=True)]


def cut(text: str, pieces: Sequence[str]) -> list[str]:
    """Cut ``text`` into the parts of the first of ``pieces``, as many as it reaches.

    A piece that cannot be placed gets an empty part, or what lies before the next one that can.
    """
    parts: list[str] = []
    at, num_unplaced = 0, 0
    for piece in pieces:
        if at == len(text):
            break
        found = _find(text, piece, at, num_unplaced)
        if found is None:
            parts.append("")
            num_unplaced += 1
            continue
        gap, at = text[at:found], found + len(piece)
        if num_unplaced:
            parts[-1] += gap
            parts.append(piece)
        else:
            parts.append(gap + piece)
        num_unplaced = 0
    if parts:
        parts[-1] += text[at:]
    return parts


def _find(text: str, piece: str, at: int, num_unplaced: int) -> int | None:
    """Where ``piece`` begins, at or soon after ``at``.

    A token alone may lack the space that it has within text.
    """
    if not piece or _INCOMPLETE in piece:
        return None
    if text.startswith(piece, at):
        return at
    if text.startswith(" " + piece, at):
        return at + 1
    reach = at + num_unplaced * _BYTES_PER_CHARACTER
    found = text.find(piece, at, reach + len(piece))
    return None if found < 0 else found
