"""``draftwell up``: store, trie service and decoder until Ctrl-C."""

from __future__ import annotations

from rich.console import Console

from decoder_service.client import Client
from decoder_service.commands.index_client import index_client
from decoder_service.commands.pair import Pair, PairOptions, start_pair
from decoder_service.commands.processes import running_services


def run_up(options: PairOptions, *, show_logs: bool) -> None:
    """Serve until interrupted; raise ServiceFailed when a service ends by itself."""
    console = Console(stderr=True, highlight=False)

    def on_log(name: str, line: str) -> None:
        if show_logs:
            console.print(f"{name:<15} | {line}", markup=False, soft_wrap=True, style="dim")

    with running_services(on_log) as services:
        try:
            pair = start_pair(services, options, console)
            _announce(pair)
            raise services.wait_for_failure()
        except KeyboardInterrupt:
            console.print("stopping")


def _announce(pair: Pair) -> None:
    with Client(pair.decoder) as client, index_client(pair.trie) as index:
        model = client.model()
        lines = (
            f"store           {index.store()}",
            f"trie-service    {pair.trie}",
            f"decoder-service {pair.decoder}  {model.name}, {model.dtype} on {model.device}",
            "",
            f'try: draftwell generate --address {pair.decoder} --show-drafts "Name three rivers."',
            "Ctrl-C stops all three.",
        )
    print("\n".join(lines), flush=True)
