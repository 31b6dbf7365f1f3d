"""The ``trie-service`` command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

import typer

from trie_service import __version__
from trie_service.abandon import leave_abandoned
from trie_service.config import TrieConfig
from trie_service.errors import ConfigError, TrieServiceError
from trie_service.log import configure_logging
from trie_service.service import serve

EXIT_FAILED = 1
EXIT_USAGE = 2

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


def _show_version(asked: bool) -> None:
    if asked:
        print(f"trie-service {__version__}")
        raise typer.Exit


@app.command(epilog="Every option can be set by environment variable too, for example DRAFTWELL_TRIE_LISTEN.")
def run(  # noqa: PLR0913, PLR0917 - one parameter a flag
    listen: Annotated[
        str | None, typer.Option(help="HOST:PORT to serve on; port 0 picks a free one. [127.0.0.1:50052]")
    ] = None,
    redis: Annotated[
        str | None,
        typer.Option(
            help="System of record: embedded: (private, nothing survives), embedded:/FOLDER (private, "
            "durable), redis://, rediss:// (TLS), unix://, redis+cluster:// or rediss+cluster://. [embedded:]"
        ),
    ] = None,
    auto_create: Annotated[
        bool | None,
        typer.Option(
            "--auto-create/--no-auto-create",
            help="Create an unknown namespace on Learn with a fingerprint. [on]",
        ),
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option(help="Memory of a namespace, for example 512MiB; bounds its log too. [256MiB]"),
    ] = None,
    metrics_listen: Annotated[
        str | None,
        typer.Option(help="HOST:PORT to serve Prometheus metrics on; port 0 picks a free one. [off]"),
    ] = None,
    log_format: Annotated[str | None, typer.Option(help="json or console. [console]")] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Serve the shared draft index.

    Prints "trie-service listening on HOST:PORT" to stdout once it serves; logs go to stderr.
    """
    flags = {
        "listen": listen,
        "redis": redis,
        "auto_create": auto_create,
        "max_bytes": max_bytes,
        "metrics_listen": metrics_listen,
        "log_format": log_format,
    }
    try:
        config = TrieConfig.load(flags)
        configure_logging(config.log_format)
        _run(config)
    except ConfigError as error:
        _fail(error, EXIT_USAGE)
    except TrieServiceError as error:
        _fail(error, EXIT_FAILED)


def main() -> None:
    """Entry point."""
    app()


def _run(config: TrieConfig) -> None:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(config))
    leave_abandoned()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed: it halves a round trip."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop


def _fail(error: TrieServiceError, status: int) -> None:
    typer.echo(f"trie-service: {error}", err=True)
    raise typer.Exit(status)


if __name__ == "__main__":
    main()
