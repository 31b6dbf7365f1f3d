"""Documents as Learn requests, under names that are the same each time."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import PurePath

from draftwell.trie.v1 import trie_pb2 as pb

from trie_service.admin.corpus import Document, TokenIds
from trie_service.admin.corpus.rows import CONTEXT_LEN

MAX_LEARNED_LEN = 1 << 16  # tokens of one sequence; longer documents are cut
MAX_NAME_LEN = 160


def learn_requests(
    namespace: pb.NamespaceRef, document: Document, tokens: TokenIds
) -> Iterator[pb.LearnRequest]:
    """The sequences of a document; none where nothing is left to learn.

    A sequence's id depends on the file, the place there and the tokens alone, so an index that has
    learned it lately does not learn it again.
    """
    for start in range(tokens.context_len, len(tokens.ids), MAX_LEARNED_LEN):
        begin = max(0, start - CONTEXT_LEN)
        part = TokenIds(tokens.ids[begin : start + MAX_LEARNED_LEN], start - begin)
        yield pb.LearnRequest(
            namespace=namespace,
            sequence_id=_sequence_id(document, start, part),
            tokens=part.ids.tolist(),
            context_len=part.context_len,
        )


def _sequence_id(document: Document, start: int, part: TokenIds) -> str:
    """File name and position for people, and a digest of everything."""
    origin = f"{document.source}\0{document.position}\0{start}\0{part.context_len}\0"
    digest = blake2b(origin.encode(errors="surrogateescape"), digest_size=16)
    digest.update(part.ids.astype("<i8", copy=False).tobytes())
    name = PurePath(document.source).name[-MAX_NAME_LEN:].encode(errors="replace").decode()
    return f"{name}:{document.position}#{digest.hexdigest()}"
