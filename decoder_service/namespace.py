"""What a namespace of the index may be called."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")  # as the trie service takes them

NAME_RULE = "1 to 128 letters, digits, '.', '_' and '-'"


def is_namespace_name(name: str) -> bool:
    """Whether the trie service would take the name."""
    return _NAME.fullmatch(name) is not None
