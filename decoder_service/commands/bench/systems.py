"""What a benchmark compares: ways of this decoder, and transformers' own generation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from decoder_service.client import Drafts, Lookahead

PLAIN = "plain"
BASE_PEER = "hf-generate"
JACOBI_WINDOW = 8
DRAFT_NODES = 24  # of a decoder that no larger window needs


@dataclass(frozen=True, slots=True)
class System:
    """One way of decoding."""

    name: str
    drafts: Drafts | None  # None: a peer, which the decoder does not run
    is_taught_before: bool = False  # its namespace learns answers to other prompts first

    @property
    def uses_index(self) -> bool:
        """Whether it needs a namespace."""
        return self.drafts is not None and "index" in self.drafts.sources

    def in_namespace(self, namespace: str) -> Drafts:
        """What to ask the decoder for."""
        assert self.drafts is not None
        return replace(self.drafts, namespace=namespace) if self.uses_index else self.drafts


def _drafting(*sources: str, shape: Lookahead | None = None) -> Drafts:
    return Drafts(sources, learn="index" in sources, lookahead=shape)


SYSTEMS = {
    system.name: system
    for system in (
        System(PLAIN, Drafts.none()),
        System("own", _drafting("own")),
        System("index", _drafting("index")),
        System("lookahead", _drafting("lookahead")),
        System("jacobi", _drafting("lookahead", shape=Lookahead(JACOBI_WINDOW, 2, 0))),
        System("model", _drafting("model")),
        System("own-index", _drafting("own", "index")),
        System("all", _drafting("own", "index", "lookahead")),
        System("all-taught", _drafting("own", "index", "lookahead"), is_taught_before=True),
        System(BASE_PEER, None),
        System("hf-prompt-lookup", None),
    )
}


def systems_of(names: str) -> list[System]:
    """Systems by name, separated by commas; ``lookahead:WxNxG`` is one too. Raises ValueError that names a bad one."""
    chosen = [_system_of(name.strip()) for name in names.split(",") if name.strip()]
    if not chosen:
        raise ValueError("no system is named")
    return chosen


def _system_of(name: str) -> System:
    if name in SYSTEMS:
        return SYSTEMS[name]
    kind, _, shape = name.partition(":")
    numbers = shape.split("x")
    if kind != "lookahead" or len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
        raise ValueError(f"{name!r} is no system; there are {', '.join(SYSTEMS)} and lookahead:WxNxG")
    return System(name, _drafting("lookahead", shape=Lookahead(*map(int, numbers))))


def most_rows(systems: list[System]) -> int:
    """Rows that the largest window of these takes."""
    shapes = [system.drafts.lookahead for system in systems if system.drafts and system.drafts.lookahead]
    return max(((shape.window or 0) * ((shape.ngram or 2) - 1) for shape in shapes), default=0)
