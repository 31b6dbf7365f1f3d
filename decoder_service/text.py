"""From tokens to text that a client may see: whole characters, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_BROKEN = "\ufffd"
_PREFIX_TOKENS = 6
_MOST_TOKENS_A_CHARACTER = 8  # what is broken for longer is no character

Decode = Callable[[list[int]], str]


class TextStream:
    """Turns a growing list of tokens into growing text.

    A token may end in the middle of a character: its text waits until the character is complete. Text is decoded
    behind a few earlier tokens, because tokenizers decode the first token of a text differently.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._start = 0  # of what is decoded again for context
        self._done = 0  # tokens whose text was given out

    def push(self, token: int) -> str:
        """Text that became certain with this token."""
        self._tokens.append(token)
        before = self._decode(self._tokens[self._start : self._done])
        text = self._decode(self._tokens[self._start :])
        if text.endswith(_BROKEN) and len(self._tokens) - self._done < _MOST_TOKENS_A_CHARACTER:
            return ""
        self._done = len(self._tokens)
        self._start = max(0, self._done - _PREFIX_TOKENS)
        return text[len(before) :]


@dataclass(frozen=True, slots=True)
class StopMatch:
    """A stop string that was found."""

    string: str


class StopStrings:
    """Holds back text that may be the beginning of a stop string."""

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = tuple(strings)
        self._held = ""

    def push(self, text: str) -> tuple[str, StopMatch | None]:
        """Text that may be shown, and the stop string that ended it, if one did."""
        if not self._strings:
            return text, None
        self._held += text
        found = [(at, string) for string in self._strings if (at := self._held.find(string)) >= 0]
        if found:
            at, string = min(found)
            shown, self._held = self._held[:at], ""
            return shown, StopMatch(string)
        keep = max(self._longest_start_of(string) for string in self._strings)
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown, None

    def flush(self) -> str:
        """What is still held back, once it is certain that no stop string follows."""
        shown, self._held = self._held, ""
        return shown

    def _longest_start_of(self, string: str) -> int:
        """Length of the longest end of the held text that begins ``string``."""
        for length in range(min(len(string) - 1, len(self._held)), 0, -1):
            if self._held.endswith(string[:length]):
                return length
        return 0
