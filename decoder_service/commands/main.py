"""Entry point of ``draftwell``: says what to install where the command's libraries are missing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command."""
    try:
        from decoder_service.commands.app import app
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in {"typer", "rich"}:
            raise
        sys.exit(f"draftwell needs {library}: pip install 'draftwell[cli]'")
    app(prog_name="draftwell")


if __name__ == "__main__":
    main()
