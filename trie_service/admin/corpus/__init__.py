"""Corpora: files of many kinds in, documents out."""

from trie_service.admin.corpus.document import (
    BadLine,
    Content,
    Conversation,
    Document,
    EndOfSource,
    Item,
    Message,
    TokenIds,
)
from trie_service.admin.corpus.reading import ReadOptions, read_corpus, read_source
from trie_service.admin.corpus.sources import STANDARD_INPUT, Source, find_sources

__all__ = [
    "STANDARD_INPUT",
    "BadLine",
    "Content",
    "Conversation",
    "Document",
    "EndOfSource",
    "Item",
    "Message",
    "ReadOptions",
    "Source",
    "TokenIds",
    "find_sources",
    "read_corpus",
    "read_source",
]
