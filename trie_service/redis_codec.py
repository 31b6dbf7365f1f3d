"""The store's nouns as fields of Redis, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from trie_service.errors import InvalidArgumentError
from trie_service.namespace import NO_FORMAT, NamespaceLimits, NamespaceRecord
from trie_service.sequence import Forgotten, TokenSequence
from trie_service.store import START, LogEntry, Stored

STORED_FIELDS: Final = (
    "incarnation",
    "appended",
    "log_bytes",
    "snap_bytes",
    "snap_number",
    "snap_ms",
    "snap_rejected",
    "snap_position",
)

_LIMIT_FIELDS: Final = ("max_bytes", "max_tokens_per_second", "text_ttl_s")
_TAKEN_BACK: Final = -1


def flat(fields: Mapping[str, str | int]) -> list[str | int]:
    """Fields and values as a script takes them."""
    return [word for item in fields.items() for word in item]


def log_words(item: TokenSequence | Forgotten) -> tuple[str, int, bytes]:
    """What a log keeps of an item: id, context length and tokens."""
    if isinstance(item, Forgotten):
        return item.sequence_id, _TAKEN_BACK, b""
    return item.sequence_id, item.context_len, item.tokens.astype("<i4", copy=False).tobytes()


def limit_fields(record: NamespaceRecord) -> dict[str, str | int]:
    """What the hash of a namespace says of its limits."""
    return {name: getattr(record.limits, name) for name in _LIMIT_FIELDS}


def record_of(name: str, meta: Mapping[bytes, bytes]) -> NamespaceRecord:
    """A namespace from its hash; one that makes no sense has a format that nobody reads."""
    try:
        return _record(name, meta)
    except ValueError:
        incarnation = meta.get(b"incarnation", b"").decode(errors="replace")
        return NamespaceRecord(name, "", 0, incarnation, format_version=NO_FORMAT)


def _record(name: str, meta: Mapping[bytes, bytes]) -> NamespaceRecord:
    limits = {field: int(meta.get(field.encode(), 0)) for field in _LIMIT_FIELDS}
    return NamespaceRecord(
        name=name,
        fingerprint=meta.get(b"fingerprint", b"").decode(),
        vocab_size=int(meta.get(b"vocab_size", 0)),
        incarnation=meta.get(b"incarnation", b"").decode(),
        format_version=int(meta.get(b"format", 0)),
        limits=NamespaceLimits(**limits),
        lineage=meta.get(b"lineage", b"").decode(),
    )


def stored_of(record: NamespaceRecord, reply: Sequence[bytes | None] | None, now_ms: int) -> Stored:
    """What the store holds of a namespace, from STORED_FIELDS of its hash; None: nobody answers."""
    if reply is None:
        return Stored(is_out_of_reach=True)
    if reply[0] != record.incarnation.encode():
        return Stored()
    head, log_bytes, snapshot_bytes, number, snapshot_ms, rejected = map(_int_of, reply[1:-1])
    position = reply[-1].decode() if reply[-1] else START
    return Stored(head, log_bytes, snapshot_bytes, number, position, snapshot_ms, now_ms, bool(rejected))


def entries_of(
    record: NamespaceRecord, entries: Sequence[tuple[bytes, Mapping[bytes, bytes]]]
) -> list[LogEntry]:
    """Entries of a log."""
    return [_entry(record, position.decode(), fields) for position, fields in entries]


def _int_of(value: bytes | None) -> int:
    return int(value or 0)


def _entry(record: NamespaceRecord, position: str, fields: Mapping[bytes, bytes]) -> LogEntry:
    """An entry of the log; one that somebody else wrote there must not stop a replica."""
    try:
        number = int(fields[b"n"])
        if b"f" in fields:
            return LogEntry(position, number, forgotten=fields[b"f"].decode())
        tokens = np.frombuffer(fields[b"t"], dtype="<i4").astype(np.int64)
        sequence_id, context_len = fields[b"i"].decode(), int(fields[b"c"])
        sequence = TokenSequence.checked(sequence_id, tokens, context_len, record.vocab_size)
        return LogEntry(position, number, sequence)
    except (KeyError, ValueError, InvalidArgumentError):
        return LogEntry(position, 0)
