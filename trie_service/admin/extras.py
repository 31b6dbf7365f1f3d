"""Libraries that only some corpora need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from trie_service.admin.errors import AdminError


def required(module: str, purpose: str) -> Any:  # noqa: ANN401 - a module
    """Import a module; raise AdminError that says what to install where it is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != library:
            raise
        raise AdminError(f"{purpose} need {library}: pip install 'draftwell[corpus]'") from error
