"""Keeps memory within its bounds: lets text expire, and has the largest give way when all hold too much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from trie_service.held_text import MIN_BYTES
from trie_service.limits import LearningRates, ServiceLimits, shares
from trie_service.log_reader import Turns
from trie_service.memory import NamespaceMemory
from trie_service.namespaces import Namespaces

INTERVAL_S: Final = 0.25

# A namespace that gives way keeps so much of its share, so that it need not give way again at once. It gets
# more bytes again, by GROWTH, once all together leave ROOM of the total free with that.
KEPT: Final = 0.85
GROWTH: Final = 1.5
ROOM: Final = 0.2

log = structlog.get_logger()


class Upkeep:
    """Works in the background, a little at a time."""

    def __init__(
        self,
        namespaces: Namespaces,
        limits: ServiceLimits,
        rates: LearningRates,
        now_ms: Callable[[], int],
    ) -> None:
        self._namespaces = namespaces
        self._limits = limits
        self._rates = rates
        self._now_ms = now_ms
        self._squeezed: dict[str, int] = {}  # bytes that those may take who gave way, by incarnation
        self._turns = Turns()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self.round()
            await asyncio.sleep(INTERVAL_S)

    async def round(self) -> None:
        """Do what is due now."""
        memories = self._namespaces.all()
        self._rates.keep({memory.record.name for memory in memories})
        await self.make_room()
        self._relax(memories)
        for memory in memories:
            if self._bound_of(memory) != memory.text.max_bytes:
                await memory.resize(self._bound_of(memory))
            if memory.limits.text_ttl_s:
                async with memory.lock:
                    await self._turns.take(memory.expire(self._now_ms()))

    async def make_room(self) -> None:
        """Have the largest namespaces give way until all together take at most the service's bytes."""
        if not self._limits.max_total_bytes:
            return
        held = {memory.record.incarnation: memory for memory in self._namespaces.all()}
        taken = {incarnation: memory.text.num_bytes for incarnation, memory in held.items()}
        for incarnation, share in shares(taken, self._limits.max_total_bytes).items():
            self._squeezed[incarnation] = max(MIN_BYTES, int(share * KEPT))
            memory = held[incarnation]
            log.warning("service is full: namespace gives way", namespace=memory.record.name, max_bytes=share)
            await memory.resize(self._bound_of(memory))

    def _bound_of(self, memory: NamespaceMemory) -> int:
        squeezed = self._squeezed.get(memory.record.incarnation, memory.limits.max_bytes)
        return min(squeezed, memory.limits.max_bytes)

    def _relax(self, memories: list[NamespaceMemory]) -> None:
        """Let those grow again who gave way, as far as there is room."""
        free = self._limits.max_total_bytes * (1 - ROOM) - sum(memory.text.num_bytes for memory in memories)
        self._squeezed = {
            memory.record.incarnation: self._squeezed[memory.record.incarnation]
            for memory in memories
            if self._squeezed.get(memory.record.incarnation, memory.limits.max_bytes)
            < memory.limits.max_bytes
        }
        for incarnation, bound in self._squeezed.items():
            growth = int(bound * (GROWTH - 1))
            if growth <= free:
                free -= growth
                self._squeezed[incarnation] = bound + growth
