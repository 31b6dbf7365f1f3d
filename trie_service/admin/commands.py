"""The command line of ``trie-admin``. Exit status: 0 done, 1 failed, 2 wrong usage."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from trie_service.admin.ask_commands import suggest
from trie_service.admin.bench import bench
from trie_service.admin.check_commands import snapshot, verify
from trie_service.admin.file_commands import export, import_
from trie_service.admin.look_commands import namespaces, stats, top
from trie_service.admin.manage_commands import copy, create, delete, forget, limits
from trie_service.admin.options import DEFAULT_ADDRESS, Settings
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
        str,
        typer.Option(help="HOST:PORT of a trie service.", metavar="ADDRESS", envvar="DRAFTWELL_TRIE_ADDRESS"),
    ] = DEFAULT_ADDRESS,
) -> None:
    """Keep what all commands share."""
    context.obj = Settings(trie)


LOOK, FEED, CHANGE, KEEP = "Look", "Feed", "Change", "Keep safe"

app.command(rich_help_panel=LOOK)(namespaces)
app.command(rich_help_panel=LOOK)(stats)
app.command(rich_help_panel=LOOK)(top)
app.command(rich_help_panel=LOOK)(suggest)
app.command(rich_help_panel=FEED)(warm)
app.command(rich_help_panel=CHANGE)(create)
app.command(rich_help_panel=CHANGE)(limits)
app.command(rich_help_panel=CHANGE)(copy)
app.command(rich_help_panel=CHANGE)(forget)
app.command(rich_help_panel=CHANGE)(delete)
app.command(rich_help_panel=KEEP)(export)
app.command("import", rich_help_panel=KEEP)(import_)
app.command(rich_help_panel=KEEP)(snapshot)
app.command(rich_help_panel=KEEP)(verify)
app.command(rich_help_panel=LOOK)(bench)


def main() -> None:
    """Entry point. A request to terminate ends a command as Ctrl-C does: nothing is left half done."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()
