"""One run of ``trie-admin warm``: sources, bookmark, progress and report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grpc
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub

from trie_service.admin.asking import namespace_for, vocabulary_ref
from trie_service.admin.bookmark import Bookmark
from trie_service.admin.connection import CALL_TIMEOUT_S
from trie_service.admin.corpus import BadLine, Document, Item, ReadOptions, Source, find_sources, read_corpus
from trie_service.admin.errors import AdminError
from trie_service.admin.learning_calls import Group, LearningCalls
from trie_service.admin.meter import metered
from trie_service.admin.tokenizer import Tokenizer
from trie_service.admin.warming import Clock, Tally, Warmer, WarmPlan

SHOWN_BAD_LINES = 5  # of each source
POLL_EVERY_S = 0.05
STALLED_S = 60.0  # a replica that applied nothing for so long is not waited for


@dataclass(frozen=True, slots=True)
class WarmOptions:
    """What to read and where to."""

    files: tuple[str, ...]
    kind: str  # of every source; empty: by name
    text_field: str
    namespace: str | None
    fingerprint: str  # without a tokenizer: the namespace is created with it if there is none
    limit: int | None  # most documents
    resume: Path | None
    strict: bool
    wait: bool  # until the replica drafts from all of it
    list_ids: bool  # print the id and place of every sequence


@dataclass(frozen=True, slots=True)
class WarmReport:
    """What became of a corpus."""

    namespace: str
    tally: Tally
    num_resumed: int  # documents that were acknowledged in an earlier run
    seconds: float
    tokens_per_second: float

    def as_json(self) -> dict[str, Any]:
        """One flat object."""
        counts = {name: value for name, value in asdict(self.tally).items() if name.startswith("num_")}
        rates = {"seconds": self.seconds, "tokens_per_second": self.tokens_per_second}
        return {"namespace": self.namespace} | counts | {"num_resumed": self.num_resumed} | rates

    def in_words(self, verb: str) -> str:
        """One line."""
        tally = self.tally
        extras = {
            "empty": tally.num_empty,
            "bad": tally.num_bad,
            "learned in an earlier run": self.num_resumed,
        }
        passed_over = "".join(f", {count:,} {what}" for what, count in extras.items() if count)
        return (
            f"{self.namespace}: {verb} {tally.num_tokens:,} tokens in {tally.num_sequences:,} sequences, "
            f"{self.tokens_per_second:,.0f} tokens/s{passed_over}"
        )


def run_warm(
    options: WarmOptions,
    tokenizer: Tokenizer | None,
    trie: TrieServiceStub | None,
    tell: Callable[[str], None],
) -> WarmReport:
    """Learn everything that the options name; without a trie service only count it.

    Bad lines go to ``tell``. Raises AdminError and grpc.RpcError.
    """
    sources = find_sources(options.files, options.kind)
    name = namespace_for(tokenizer, options.namespace)
    bad_lines = BadLines(tell, strict=options.strict)
    plan = _plan(options, tokenizer, trie, bad_lines, name)
    warmer = Warmer(plan, LearningCalls(trie) if trie else None)
    bookmark = Bookmark(options.resume, name) if options.resume else None
    unread = Unread(sources, bookmark)
    on_acknowledged = _list_ids if options.list_ids else _ignore
    clock = _warm(warmer, unread, bookmark if trie else None, _read(unread, options), on_acknowledged)
    if trie and options.wait:
        _wait_until_applied(trie, name)
    bad_lines.tell_the_rest()
    if bad_lines.num_told and not warmer.tally.num_documents and not unread.num_resumed:
        raise AdminError("nothing there could be read")
    tally = warmer.tally
    return WarmReport(name, tally, unread.num_resumed, clock.seconds, clock.rate(tally.num_tokens))


class Unread:
    """What a bookmark leaves of the sources."""

    def __init__(self, sources: Iterable[Source], bookmark: Bookmark | None) -> None:
        positions = {source: bookmark.position(source) if bookmark else 0 for source in sources}
        self.sources = [source for source, position in positions.items() if position is not None]
        self._positions = {source.identity: position for source, position in positions.items()}
        self.num_resumed = 0

    def __call__(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items that were not acknowledged in an earlier run."""
        for item in items:
            if isinstance(item, Document | BadLine) and item.position <= (self._positions[item.source] or 0):
                self.num_resumed += isinstance(item, Document)
            else:
                yield item


class BadLines:
    """Says which lines are no documents, not too often; where it is strict the first is one too many."""

    def __init__(self, tell: Callable[[str], None], *, strict: bool) -> None:
        self._tell = tell
        self._strict = strict
        self._counts: Counter[str] = Counter()

    @property
    def num_told(self) -> int:
        """Bad lines so far."""
        return self._counts.total()

    def __call__(self, line: BadLine) -> None:
        """Take note; raise AdminError where it is strict."""
        if self._strict:
            raise AdminError(f"{line.place}: {line.reason}")
        self._counts[line.source] += 1
        if self._counts[line.source] <= SHOWN_BAD_LINES:
            self._tell(f"{line.place}: {line.reason}: left out")

    def tell_the_rest(self) -> None:
        """How many were not told one by one."""
        for source, count in self._counts.items():
            if count > SHOWN_BAD_LINES:
                self._tell(f"{source}: {count - SHOWN_BAD_LINES:,} more lines left out")


def _warm(
    warmer: Warmer,
    unread: Unread,
    bookmark: Bookmark | None,
    items: Iterator[Item],
    on_acknowledged: Callable[[Group], None],
) -> Clock:
    total, clock = sum(source.num_bytes for source in unread.sources), Clock()
    try:
        with metered("learning" if warmer.sends else "reading", total) as meter:
            for group in warmer.warm(items):
                if bookmark:
                    bookmark.advance(group.positions)
                on_acknowledged(group)
                tokens = warmer.tally.num_tokens
                meter.update(group.end, f"{tokens:,} tokens, {clock.rate(tokens):,.0f} tokens/s")
    finally:
        if bookmark:
            bookmark.save()
    return clock


def _list_ids(group: Group) -> None:
    for request, place in zip(group.requests, group.places, strict=True):
        print(f"{request.sequence_id}\t{place}")


def _ignore(group: Group) -> None:
    """Nobody asked for the ids."""


def _wait_until_applied(trie: TrieServiceStub, name: str) -> None:
    """Until the replica has no entry of the namespace's log before it; raise AdminError where it gets no further."""
    total = left = _num_pending(trie, name)
    moved_at = time.monotonic()
    with metered("applying", total) as meter:
        while left:
            time.sleep(POLL_EVERY_S)
            before, left = left, _num_pending(trie, name)
            meter.update(max(0, total - left), f"{left:,} log entries left")
            if left < before:
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at >= STALLED_S:
                raise AdminError(
                    f"{name}: {left:,} log entries are not applied, and none was in {STALLED_S:.0f} s: all of it is "
                    "in the store, look at the replica with `trie-admin stats`"
                )


def _num_pending(trie: TrieServiceStub, name: str) -> int:
    found = trie.GetNamespace(pb.GetNamespaceRequest(name=name), timeout=CALL_TIMEOUT_S).namespace
    return found.stats.num_pending


def _read(unread: Unread, options: WarmOptions) -> Iterator[Item]:
    items = unread(read_corpus(unread.sources, ReadOptions(options.text_field)))
    num_left = options.limit
    for item in items:
        if num_left == 0:
            return
        if num_left is not None and isinstance(item, Document):
            num_left -= 1
        yield item


def _plan(
    options: WarmOptions,
    tokenizer: Tokenizer | None,
    trie: TrieServiceStub | None,
    on_bad: BadLines,
    name: str,
) -> WarmPlan:
    if tokenizer is None:
        ref = pb.NamespaceRef(name=name, fingerprint=options.fingerprint)
        return WarmPlan(ref, _vocab_size(trie, ref) if trie else 0, None, on_bad)
    vocabulary = tokenizer.vocabulary()
    ref = pb.NamespaceRef(name=name, fingerprint=vocabulary.fingerprint)
    if trie:
        ref = vocabulary_ref(trie, tokenizer, name)
    return WarmPlan(ref, vocabulary.size, tokenizer, on_bad)


def _vocab_size(trie: TrieServiceStub, ref: pb.NamespaceRef) -> int:
    """Of the namespace; 0 where there is none yet. Raises AdminError where learning cannot create it."""
    try:
        found = trie.GetNamespace(pb.GetNamespaceRequest(name=ref.name), timeout=CALL_TIMEOUT_S).namespace
    except grpc.RpcError as error:
        if not isinstance(error, grpc.Call) or error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        if not ref.fingerprint:
            raise AdminError(
                f"namespace {ref.name!r} does not exist: make it with `trie-admin create`, or name the "
                "--fingerprint of its tokenizer"
            ) from error
        return 0
    return found.vocab_size
