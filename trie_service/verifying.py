"""Checks what a replica holds of a namespace, and what is stored."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from trie_service.errors import SnapshotCorruptError, UnsupportedFormatError
from trie_service.memory import NamespaceMemory
from trie_service.namespace import NamespaceRef
from trie_service.namespaces import Namespaces
from trie_service.serving import Serving
from trie_service.snapshot import Snapshot
from trie_service.store import Store
from trie_service.text_check import problems_of


@dataclass(frozen=True, slots=True)
class Findings:
    """What a check found."""

    problems: list[str]  # for people; empty: all is well
    digest: str  # of the text held; equal at replicas that have applied the same log from the same start
    num_applied: int  # entries of the log in it


@dataclass(frozen=True, slots=True)
class Verifier:
    """Looks at memory and store; changes neither."""

    store: Store
    namespaces: Namespaces
    serving: Serving

    async def verify(self, ref: NamespaceRef) -> Findings:
        """Check one namespace. Takes seconds a million tokens, during most of which learning goes on."""
        memory = self.namespaces.memory_of(ref)
        self.serving.require_store()
        digest, num_applied = await memory.digest()
        held = await memory.snapshot()
        problems = [f"in memory: {problem}" for problem in await _problems_of(memory, held)]
        try:
            stored = await self.store.read_snapshot(memory.record)
        except (SnapshotCorruptError, UnsupportedFormatError) as error:
            problems.append(f"in the store: {error}")
        else:
            found = [] if stored is None else await _problems_of(memory, stored)
            problems += [f"in the stored snapshot: {problem}" for problem in found]
        return Findings(problems, digest, num_applied)


async def _problems_of(memory: NamespaceMemory, snapshot: Snapshot) -> list[str]:
    return await asyncio.to_thread(
        problems_of, snapshot.arrays, max_order=memory.text.max_order, max_bytes=memory.limits.max_bytes
    )
