"""What a caller asks for. A field that is None means the server's default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str  # as the model's chat template names it: "system", "user" or "assistant"
    content: str


Prompt = str | Sequence[Message] | Sequence[int]
"""Raw text, a conversation (oldest turn first) or token ids."""


def chat(question: str, *, system: str | None = None) -> tuple[Message, ...]:
    """A conversation of one question, under a system message if there is one."""
    user = Message("user", question)
    return (user,) if system is None else (Message("system", system), user)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. Without a temperature decoding is greedy."""

    temperature: float | None = None  # 0 to 100; 0: greedy
    top_k: int | None = None  # 0: off
    top_p: float | None = None  # (0, 1]
    min_p: float | None = None  # [0, 1]
    repetition_penalty: float | None = None  # (0, 100]; 1: off
    seed: int | None = None  # None: the server draws one and reports it
    logit_bias: Mapping[int, float] = field(default_factory=dict)  # token id -> -100 to 100


@dataclass(frozen=True, slots=True)
class Stop:
    """When to stop, beside the model's own end tokens."""

    max_tokens: int | None = None
    min_tokens: int | None = None
    strings: tuple[str, ...] = ()
    token_ids: tuple[int, ...] = ()
    ignore_eos: bool | None = None


@dataclass(frozen=True, slots=True)
class Lookahead:
    """The shape of Lookahead decoding; None: the server's default."""

    window: int | None = None  # W
    ngram: int | None = None  # N; 2 with no candidates: Jacobi decoding
    candidates: int | None = None  # G


@dataclass(frozen=True, slots=True)
class Drafts:
    """Where drafts come from and what they may cost. They change speed, never output."""

    sources: tuple[str, ...] = ()  # of "own", "index", "lookahead" and "model"; none: plain decoding
    max_nodes: int | None = None  # a step
    namespace: str = ""  # of the index; empty: the server's default
    learn: bool | None = None  # whether the index learns the output
    lookahead: Lookahead | None = None

    @classmethod
    def none(cls) -> Drafts:
        """Plain decoding of which nothing is learned."""
        return cls(learn=False)
