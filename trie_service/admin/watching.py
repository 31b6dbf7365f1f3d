"""Statistics that renew themselves in the terminal; elsewhere one look under the other."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.live import Live

from trie_service.admin.drawing import sample_view
from trie_service.admin.sampling import Sample


def show_live(looks: Iterable[Sample]) -> None:
    """Show each look until there are no more, or until Ctrl-C."""
    console = Console()
    try:
        if not console.is_terminal:
            for sample in looks:
                console.print(sample_view(sample))
            return
        with Live(console=console, auto_refresh=False) as live:
            for sample in looks:
                live.update(sample_view(sample), refresh=True)
    except KeyboardInterrupt:
        return
