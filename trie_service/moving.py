"""Namespaces as a whole: copied, written to a file, and made from one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Final

from trie_service.errors import ExportFileError
from trie_service.export_file import ExportedNamespace, decode, encode
from trie_service.held_text import HeldText
from trie_service.log_reader import LogReader
from trie_service.memory import LearnedCounters
from trie_service.namespace import NamespaceRecord, NamespaceRef
from trie_service.namespaces import Namespaces, NamespaceView
from trie_service.options import IndexOptions
from trie_service.serving import Serving
from trie_service.snapshot import Snapshot
from trie_service.store import START

PIECE_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Mover:
    """Copies, exports and imports; what was acknowledged before the call is in it."""

    namespaces: Namespaces
    reader: LogReader
    serving: Serving
    options: IndexOptions

    async def copy(self, source: NamespaceRef, target: str) -> NamespaceView:
        """Make a new namespace that holds what another one holds; raise AlreadyExistsError where there is one."""
        record = self.namespaces.memory_of(source).record
        self.serving.require_store()
        wanted = NamespaceRecord.new(
            NamespaceRef(target, record.fingerprint), record.vocab_size, record.limits
        )
        memory = await self.reader.until_caught_up(record)
        snapshot = replace(await memory.snapshot(), position=START, number=0)
        return await self.namespaces.create_filled(wanted, snapshot)

    async def export(self, ref: NamespaceRef) -> bytes:
        """The file of a namespace."""
        record = self.namespaces.memory_of(ref).record
        self.serving.require_store()
        memory = await self.reader.until_caught_up(record)
        words, rows = await memory.words()
        return await asyncio.to_thread(encode, ExportedNamespace(record, words, rows))

    async def import_file(self, pieces: AsyncIterator[bytes], name: str) -> NamespaceView:
        """Make a namespace from a file, under its own name or another; a bad file leaves nothing behind.

        Raises ExportFileError or AlreadyExistsError.
        """
        self.serving.require_store()
        data = bytearray()
        async for piece in pieces:
            data += piece
            if len(data) > self.options.limits.max_bytes:
                raise ExportFileError(f"the file has more than {self.options.limits.max_bytes} bytes")
        exported = await asyncio.to_thread(decode, data)
        wanted = exported.record
        if name:
            ref = NamespaceRef(name, wanted.fingerprint)
            wanted = NamespaceRecord.new(ref, wanted.vocab_size, wanted.limits)
        snapshot = await asyncio.to_thread(self._snapshot_of, exported)
        return await self.namespaces.create_filled(wanted, snapshot)

    def _snapshot_of(self, exported: ExportedNamespace) -> Snapshot:
        max_bytes = self.options.limits.of(exported.record.limits).max_bytes
        try:
            text = HeldText.from_words(
                exported.words, exported.rows, max_order=self.options.max_order, max_bytes=max_bytes
            )
        except ValueError as error:
            raise ExportFileError(f"the file's text makes no sense: {error}") from error
        counters = LearnedCounters(num_sequences=len(exported.rows), num_tokens=text.num_learned_tokens)
        return Snapshot(START, 0, text.to_arrays(), asdict(counters))


def in_pieces(data: bytes) -> Iterator[bytes]:
    """A file in pieces that fit into messages; at least one."""
    for start in range(0, max(1, len(data)), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]
