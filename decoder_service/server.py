"""The ``decoder-service`` command."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Annotated, Any

import typer

from decoder_service import __version__
from decoder_service.config import ConfigError, DecoderConfig
from decoder_service.embedded_model import ModelNotFoundError
from decoder_service.errors import DecoderError
from decoder_service.log import configure_logging

EXIT_FAILED = 1
EXIT_USAGE = 2

app = typer.Typer(
    add_completion=False, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]}
)

ModelOption = Annotated[
    str | None,
    typer.Option(
        help="Folder or .gguf file that transformers can load; GGUF is converted to bfloat16. [the embedded model]"
    ),
]
DtypeOption = Annotated[str | None, typer.Option(help="bfloat16 or float32. [bfloat16]")]
DeviceOption = Annotated[str | None, typer.Option(help="cpu or cuda[:N]. [cpu]")]


def _show_version(asked: bool) -> None:
    if asked:
        print(f"decoder-service {__version__}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    epilog="Every option can be set by environment variable too, for example DRAFTWELL_DECODER_LISTEN.",
)
def run(  # noqa: PLR0913, PLR0917 - one argument an option
    context: typer.Context,
    listen: Annotated[
        str | None, typer.Option(help="HOST:PORT to serve on; port 0 picks a free one. [127.0.0.1:50051]")
    ] = None,
    trie: Annotated[str | None, typer.Option(help="Address of the trie service. [none: no index]")] = None,
    model: ModelOption = None,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    namespace: Annotated[str | None, typer.Option(help="Namespace of requests that do not say.")] = None,
    drafts: Annotated[
        str | None, typer.Option(help="Draft sources of requests that do not say. [own,index,model]")
    ] = None,
    draft_model: Annotated[
        str | None, typer.Option(help="A smaller model with the same tokenizer that drafts. [none]")
    ] = None,
    draft_depth: Annotated[
        int | None, typer.Option(help="Most tokens that the draft model guesses ahead. [8]")
    ] = None,
    draft_width: Annotated[
        int | None, typer.Option(help="Tokens that it offers at each depth; 1: a chain. [3]")
    ] = None,
    lookahead: Annotated[
        str | None, typer.Option(help="W,N,G of Lookahead decoding, where drafts name it. [5,3,5]")
    ] = None,
    draft_nodes: Annotated[
        int | None, typer.Option(help="Most draft nodes verified in one step. [24]")
    ] = None,
    max_streams: Annotated[int | None, typer.Option(help="Requests that run at once. [8]")] = None,
    max_queue: Annotated[int | None, typer.Option(help="Requests that are open at once. [64]")] = None,
    draft_deadline_ms: Annotated[
        float | None, typer.Option(help="Longest wait of a step for the index. [10]")
    ] = None,
    stop_grace_s: Annotated[float | None, typer.Option(help="Time for open requests at a stop. [5]")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads of torch. [torch's default]")] = None,
    log_format: Annotated[str | None, typer.Option(help="json or console. [console]")] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Decode with a language model, faster by drafts and never differently.

    Prints "decoder-service listening on HOST:PORT" to stdout once it serves; logs go to stderr.
    """
    if context.invoked_subcommand is not None:
        return
    flags = {name: value for name, value in context.params.items() if name != "version"}
    _guarded(flags, _serve)


@app.command(epilog="Example: decoder-service check --dtype float32 --json")
def check(
    model: ModelOption = None,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    tokens: Annotated[int, typer.Option(min=16, max=4096, help="Length of the texts.")] = 160,
    texts: Annotated[int, typer.Option(min=1, max=1000, help="How many texts.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check on this machine that drafts, batches and prefills change no bit of the model's results."""

    def report(config: DecoderConfig) -> None:
        raise typer.Exit(_check(config, tokens, texts, as_json=as_json))

    _guarded({"model": model, "dtype": dtype, "device": device}, report)


def main() -> None:
    """Entry point."""
    app()


def _serve(config: DecoderConfig) -> None:
    _refuse_taken_port(config.listen)
    from decoder_service.service import serve

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(config))


def _refuse_taken_port(address: str) -> None:
    """Say so before a model is loaded for nothing; raise ConfigError."""
    host, _, port = address.rpartition(":")
    try:
        family, *_, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        socket.create_server(place[:2], family=family).close()
    except OSError as error:
        raise ConfigError(f"--listen (DRAFTWELL_DECODER_LISTEN): cannot bind {address}: {error}") from error


def _check(config: DecoderConfig, tokens: int, texts: int, *, as_json: bool) -> int:
    """Print a report; 0 where every text is exact."""
    from decoder_service.self_test import run_self_test
    from decoder_service.service import load

    loaded = load(config)
    if tokens > loaded.model.context_len:
        raise ConfigError(f"--tokens {tokens} is more than the context of {loaded.model.context_len}")
    reports = [run_self_test(loaded.model, tokens, min(16, tokens // 2), seed) for seed in range(texts)]
    is_exact = all(report.is_exact for report in reports)
    if as_json:
        details = [{"exact": report.is_exact, "detail": report.detail} for report in reports]
        typer.echo(
            json.dumps({"model": loaded.name, "device": config.device, "exact": is_exact, "texts": details})
        )
    else:
        for number, report in enumerate(reports):
            typer.echo(f"text {number}: {'exact' if report.is_exact else 'NOT EXACT'}: {report.detail}")
        typer.echo(f"{loaded.name} on {config.device}: {'exact' if is_exact else 'not exact'}")
    return 0 if is_exact else EXIT_FAILED


def _guarded(flags: dict[str, Any], action: Any) -> None:  # noqa: ANN401 - a function of the settings
    """Run with the settings; known errors become a message and an exit status."""
    try:
        config = DecoderConfig.load(flags)
        configure_logging(config.log_format)
        action(config)
    except ConfigError as error:
        _fail(error, EXIT_USAGE)
    except (DecoderError, ModelNotFoundError) as error:
        _fail(error, EXIT_FAILED)


def _loop_factory() -> Any:  # noqa: ANN401 - uvloop's where it is installed: it halves a round trip
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop


def _fail(error: Exception, status: int) -> None:
    typer.echo(f"decoder-service: {error}", err=True)
    raise typer.Exit(status)


if __name__ == "__main__":
    main()
