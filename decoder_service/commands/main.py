"""Entry point of ``draftwell``: says what to install where the command's libraries are missing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command."""
    try:
        from decoder_service.commands.app import app
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit(f"draftwell needs {error.name}: pip install 'draftwell[cli]'")
    app(prog_name="draftwell")


if __name__ == "__main__":
    main()
