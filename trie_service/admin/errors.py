"""What ends a command with a message instead of a traceback."""

from __future__ import annotations


class AdminError(Exception):
    """The command failed; the text says why and what to do."""
