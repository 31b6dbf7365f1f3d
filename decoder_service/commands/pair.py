"""Starts the pair: a trie service with its store, and a decoder that drafts from it."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape

from decoder_service.commands.processes import Launch, Services

LOOPBACK = "127.0.0.1:0"  # a free port
_STATUS_LEN = 100  # characters of a log line beside the spinner


@dataclass(frozen=True, slots=True)
class PairOptions:
    """What to start."""

    decoder_listen: str = LOOPBACK
    trie_listen: str = LOOPBACK
    redis: str = "embedded:"
    model: str | None = None
    dtype: str | None = None
    device: str | None = None
    decoder_flags: tuple[str, ...] = ()  # further ones


@dataclass(frozen=True, slots=True)
class Pair:
    """Addresses of a running pair."""

    decoder: str
    trie: str


def start_pair(services: Services, options: PairOptions, console: Console) -> Pair:
    """Start both, in the order in which they need each other; raise ServiceFailed if one ends."""
    trie = _start(services, _trie_launch(options), console)
    decoder = _start(services, _decoder_launch(options, trie), console)
    return Pair(decoder, trie)


def _trie_launch(options: PairOptions) -> Launch:
    arguments = ("--listen", options.trie_listen, "--redis", options.redis)
    return Launch("trie-service", "trie_service", arguments)


def _decoder_launch(options: PairOptions, trie: str) -> Launch:
    chosen = {"--model": options.model, "--dtype": options.dtype, "--device": options.device}
    given = [part for flag, value in chosen.items() if value is not None for part in (flag, value)]
    arguments = ("--listen", options.decoder_listen, "--trie", trie, *given, *options.decoder_flags)
    return Launch("decoder-service", "decoder_service", arguments)


def _start(services: Services, launch: Launch, console: Console) -> str:
    if not console.is_terminal:
        console.print(f"starting {launch.name}")
    with console.status(f"starting {launch.name}") as status:

        def show(line: str) -> None:
            status.update(f"starting {launch.name} [dim]{escape(line[:_STATUS_LEN])}[/dim]")

        return services.start(launch, show)
