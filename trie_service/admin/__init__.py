"""The ``trie-admin`` command: look at an index, ask it, warm it."""

from trie_service.admin.commands import main

__all__ = ["main"]
