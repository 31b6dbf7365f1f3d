"""The command line of ``trie-admin``. Exit status: 0 done, 1 failed, 2 wrong usage."""

from __future__ import annotations

from typing import Annotated

import typer

from trie_service.admin.ask_commands import suggest
from trie_service.admin.look_commands import namespaces, stats
from trie_service.admin.options import Settings
from trie_service.admin.warm_commands import warm

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Look at a draft index, ask it, warm it, look after it.",
)


@app.callback()
def settings(
    context: typer.Context,
    trie: Annotated[
        str, typer.Option(help="HOST:PORT of a trie service.", metavar="ADDRESS")
    ] = "127.0.0.1:50052",
) -> None:
    """Keep what all commands share."""
    context.obj = Settings(trie)


app.command(epilog="Example: trie-admin namespaces")(namespaces)
app.command(epilog="Example: trie-admin stats support-chat --json")(stats)
app.command(epilog='Example: trie-admin suggest "def main(" -n code --decoder 127.0.0.1:50051')(suggest)
app.command()(warm)


def main() -> None:
    """Entry point."""
    app()
