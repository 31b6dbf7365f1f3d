"""Draftwell's trie service."""
