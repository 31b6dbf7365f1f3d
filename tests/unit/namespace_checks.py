"""What tests of namespaces ask replicas, as ``index_replicas`` makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from index_replicas import CHAT, draft

from trie_service.errors import NamespaceNotFoundError
from trie_service.index import DraftIndex
from trie_service.namespace import NamespaceRef

MIB = 1 << 20
COPY = NamespaceRef("copy", "fp")


async def digests(*indexes: DraftIndex, ref: NamespaceRef = CHAT) -> set[str]:
    found = [await index.verifier.verify(ref) for index in indexes]
    assert all(one.problems == [] for one in found)
    return {one.digest for one in found}


def holds(
    index: DraftIndex, *context: int, drafts: list[int], ref: NamespaceRef = CHAT
) -> Callable[[], bool]:
    def is_held() -> bool:
        try:
            return draft(index, *context, ref=ref) == drafts
        except NamespaceNotFoundError:
            return False

    return is_held


async def bytes_of(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
