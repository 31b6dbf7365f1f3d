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

    A token may end in the middle of a character: every whole character is given out at once, a broken one at the end
    waits for its other tokens. Text is decoded behind a few earlier tokens, because tokenizers decode the first token
    of a text differently, from the end of a character on, because some decode a run of bytes as a whole or not at all.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._ends = [0]  # numbers of tokens with which characters ended; the first is where decoding starts
        self._num_shown = 0  # characters from there on that were given out
        self._num_waiting = 0  # tokens that brought no whole character

    def push(self, token: int) -> str:
        """Text that became certain with this token."""
        self._tokens.append(token)
        text = self._decode(self._tokens[self._ends[0] :])
        shown = text[self._num_shown : self._len_of_whole(text)]
        num_held = max(len(text) - self._num_shown - len(shown), 0)
        if shown or num_held == 0:
            self._num_shown += len(shown)
            self._move_on(num_held)
        return shown

    def _len_of_whole(self, text: str) -> int:
        """Characters of ``text`` that no token can change any more."""
        num_whole = len(text.rstrip(_BROKEN))
        if num_whole == len(text) or num_whole > self._num_shown:
            return num_whole
        self._num_waiting += 1
        return num_whole if self._num_waiting < _MOST_TOKENS_A_CHARACTER else len(text)

    def _move_on(self, num_held: int) -> None:
        """Decode fewer earlier tokens from now on; ``num_held`` characters are still to be given out."""
        self._num_waiting = 0
        self._ends.append(len(self._tokens))
        while self._ends[1] <= len(self._tokens) - _PREFIX_TOKENS:
            self._ends.pop(0)
        self._num_shown = len(self._decode(self._tokens[self._ends[0] :])) - num_held


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
