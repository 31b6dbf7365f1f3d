"""Checks what a replica holds of a namespace, and what is stored."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from trie_service.errors import SnapshotCorruptError, UnsupportedFormatError
from trie_service.held_text import HeldText
from trie_service.memory import NamespaceMemory
from trie_service.namespace import NamespaceRef
from trie_service.namespaces import Namespaces
from trie_service.serving import Serving
from trie_service.store import Store


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
        """Check one namespace. Learning waits meanwhile, about a second a million tokens; drafts do not."""
        memory = self.namespaces.memory_of(ref)
        self.serving.require_store()
        problems = [*await memory.problems(), *await self._snapshot_problems(memory)]
        digest, num_applied = await memory.digest()
        return Findings(problems, digest, num_applied)

    async def _snapshot_problems(self, memory: NamespaceMemory) -> list[str]:
        text = memory.text
        try:
            snapshot = await self.store.read_snapshot(memory.record)
            if snapshot is not None:
                await asyncio.to_thread(
                    HeldText.from_arrays,
                    snapshot.arrays,
                    max_order=text.max_order,
                    max_bytes=memory.limits.max_bytes,
                )
        except (SnapshotCorruptError, UnsupportedFormatError, ValueError) as error:
            return [f"the stored snapshot cannot be used: {error}"]
        return []
