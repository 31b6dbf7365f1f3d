"""One line of the report: a way of computing, compared with plain decoding over all prompts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.verify.decode import Computed, Decoded, same_bits
from tests.verify.reference import NEAR_TIE, Generated


@dataclass(slots=True)
class Row:
    """Counts of prompts, but for tokens and steps."""

    dtype: str
    mode: str
    way: str
    num_prompts: int = 0
    num_tokens: int = 0
    num_steps: int = 0  # 0: not counted
    num_identical: int = 0
    num_same_logits: int | None = 0  # None: not compared
    num_same_cache: int | None = 0
    near_ties: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing differs but near ties against another implementation."""
        return not self.problems and self.num_prompts > 0

    @property
    def tokens_per_step(self) -> float | None:
        """Emitted tokens a step, or None where steps are not counted."""
        return self.num_tokens / self.num_steps if self.num_steps else None

    def add_decoded(self, name: str, plain: Decoded, other: Decoded) -> None:
        """Count a prompt that was decoded in another way."""
        self._count(plain)
        self.num_steps += len(other.steps)
        same_end = plain.finished.reason == other.finished.reason and plain.shown == other.shown
        if plain.output == other.output and same_end:
            self.num_identical += 1
        else:
            self.problems.append(f"{name}: {_describe(plain, other)}")
        self._add_computed(name, plain.computed, other.computed)

    def add_prefill(self, name: str, plain: Decoded, computed: Computed) -> None:
        """Count a prompt whose final text was computed as a prompt; its logits must choose the same tokens."""
        self._count(plain)
        self.num_identical += _likeliest(plain.computed) == _likeliest(computed)
        self._add_computed(name, plain.computed, computed)

    def add_generated(self, name: str, plain: Decoded, generated: Generated) -> None:
        """Count a prompt that transformers decoded; differences at near ties are noted."""
        self._count(plain)
        self.num_same_logits = self.num_same_cache = None
        place = generated.first_difference(plain.output)
        if place is None:
            self.num_identical += 1
            return
        margin = generated.margin(place, plain.output)
        note = f"{name}: first difference at output token {place}, by {margin:.3g} in the logits"
        (self.near_ties if margin < NEAR_TIE else self.problems).append(note)

    def _count(self, plain: Decoded) -> None:
        self.num_prompts += 1
        self.num_tokens += len(plain.output)

    def _add_computed(self, name: str, plain: Computed, other: Computed) -> None:
        assert self.num_same_logits is not None
        assert self.num_same_cache is not None
        if same_bits(plain.logits, other.logits):
            self.num_same_logits += 1
        else:
            self.problems.append(f"{name}: logits differ")
        if same_bits(plain.keys, other.keys) and same_bits(plain.values, other.values):
            self.num_same_cache += 1
        else:
            self.problems.append(f"{name}: keys or values differ")


def _likeliest(computed: Computed) -> list[int]:
    return computed.logits.argmax(dim=-1).tolist()


def _describe(plain: Decoded, other: Decoded) -> str:
    """The first token that differs, or what else does."""
    shorter = min(len(plain.output), len(other.output))
    differs = np.flatnonzero(np.array(plain.output[:shorter]) != np.array(other.output[:shorter]))
    if len(differs):
        place = int(differs[0])
        top = plain.computed.logits[place].float().topk(2).values
        return (
            f"token {place} differs; the two likeliest are {float(top[0] - top[1]):.3g} apart in the logits"
        )
    if len(plain.output) != len(other.output):
        return f"{len(other.output)} tokens instead of {len(plain.output)}"
    return "the same tokens, but another text or another reason to end"
