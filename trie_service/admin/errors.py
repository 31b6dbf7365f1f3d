"""What ends a command with a message instead of a traceback."""

from __future__ import annotations

from typing import ClassVar


class AdminError(Exception):
    """The command failed; the text says why and what to do."""

    exit_status: ClassVar[int] = 1


class UsageError(AdminError):
    """The command was called wrongly."""

    exit_status: ClassVar[int] = 2
