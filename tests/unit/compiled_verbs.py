"""Run as a script: has the index compiled, uses every verb, and prints what was compiled only then."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator

import numpy as np
from index_replicas import CHAT, draft, learn, replica, until
from numba.core.dispatcher import Dispatcher

from trie_service.memory_store import MemoryStore
from trie_service.namespace import NamespaceLimits
from trie_service.service import compile_index

MIB = 1 << 20


def signatures() -> dict[str, int]:
    """How many signatures of each compiled function there are."""
    functions = [found for found in gc.get_objects() if isinstance(found, Dispatcher)]
    return {f"{one.py_func.__module__}.{one.py_func.__name__}": len(one.signatures) for one in functions}


async def use_every_verb() -> None:
    rng = np.random.default_rng(0)
    async with replica(MemoryStore()) as index:
        await learn(index, [1, 2, 3], name="a", context_len=1)
        await learn(index, list(range(600)) * 2)
        record = index.namespaces.memory_of(CHAT).record
        memory = await index.reader.until_caught_up(record)
        for context in ([1], [], [1, 2]) * 10:
            draft(index, *context)
        assert index.top_drafts(CHAT, 0) != []
        assert await index.learner.forget(CHAT, "a") == 2
        await index.snapshots.write(CHAT)
        await index.mover.copy(CHAT, "copy")
        data = await index.mover.export(CHAT)

        async def pieces() -> AsyncIterator[bytes]:
            yield data

        await index.mover.import_file(pieces(), "imported")
        await index.verifier.verify(CHAT)
        for max_bytes in (2 * MIB, MIB):
            await learn(index, *(rng.integers(0, 9999, 250).tolist() for _ in range(150)))
            await index.reader.until_caught_up(record)
            await memory.resize(max_bytes)
        await index.namespaces.update(CHAT, NamespaceLimits(text_ttl_s=1))
        await until(lambda: memory.text.trie.num_tokens == 0)


if __name__ == "__main__":
    compile_index()
    compiled = signatures()
    asyncio.run(use_every_verb())
    print(json.dumps([name for name, num in signatures().items() if num != compiled.get(name, 0)]))
