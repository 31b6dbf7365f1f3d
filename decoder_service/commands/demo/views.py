"""What is seen of the demo while it runs: a live page on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from decoder_service.client import Generation, Step
from decoder_service.commands.demo.passes import Pass, View
from decoder_service.commands.demo.prompts import DemoPrompt
from decoder_service.commands.demo.report import rate

_REFRESHES_PER_SECOND = 4  # the decoder needs the cores
_TAIL_LINES = 6


class PlainView:
    """One line a run."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def run_started(self, prompt: DemoPrompt, which: Pass) -> None:
        """Say nothing yet."""

    def step(self, step: Step) -> None:
        """Say nothing yet."""

    def run_finished(self, prompt: DemoPrompt, which: Pass, generation: Generation) -> None:
        """Print the run."""
        num_tokens, num_steps = len(generation.token_ids), generation.drafts.num_steps
        size = f"{num_tokens:>4} tokens {num_steps:>4} steps"
        self._console.print(f"{prompt.name:<12} {which:<12} {size} {rate(generation):>7} tokens/s")

    def warn(self, text: str) -> None:
        """Print the warning."""
        self._console.print(f"warning: {text}", style="yellow", markup=False)


class LiveView:
    """Progress, the text as it comes, and the speeds so far."""

    def __init__(self, console: Console, num_runs: int) -> None:
        self._console = console
        self._num_runs = num_runs
        self._num_finished = 0
        self._current = "warming up"
        self._text = ""
        self._speeds: dict[str, dict[Pass, str]] = {}

    def run_started(self, prompt: DemoPrompt, which: Pass) -> None:
        """Turn to the run."""
        self._current = f"{prompt.name} ({prompt.kind}), {which}"
        self._text = ""

    def step(self, step: Step) -> None:
        """Show its text."""
        self._text += step.text

    def run_finished(self, prompt: DemoPrompt, which: Pass, generation: Generation) -> None:
        """Enter the speed."""
        self._num_finished += 1
        self._speeds.setdefault(prompt.name, {})[which] = rate(generation)

    def warn(self, text: str) -> None:
        """Print above the page."""
        self._console.print(f"warning: {text}", style="yellow", markup=False)

    def render(self) -> RenderableType:
        """The page as of now."""
        return Group(self._progress(), self._tail(), self._speed_table())

    def _progress(self) -> RenderableType:
        row = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=self._num_runs, completed=self._num_finished, width=30)
        row.add_row(bar, f"{self._num_finished} of {self._num_runs} runs", self._current)
        return row

    def _tail(self) -> RenderableType:
        width = self._console.width - 4
        lines = Text(self._text).wrap(self._console, width)[-_TAIL_LINES:]
        return Panel(Text("\n").join(lines), height=_TAIL_LINES + 2, border_style="dim")

    def _speed_table(self) -> RenderableType:
        table = Table("tokens/s", *Pass, box=None, padding=(0, 2))
        for name, speeds in self._speeds.items():
            table.add_row(name, *(speeds.get(which, "") for which in Pass))
        return table


@contextmanager
def demo_view(console: Console, num_runs: int) -> Iterator[View]:
    """The view that fits the console."""
    if not console.is_terminal:
        yield PlainView(console)
        return
    view = LiveView(console, num_runs)
    with Live(
        get_renderable=view.render,
        console=console,
        refresh_per_second=_REFRESHES_PER_SECOND,
        transient=True,
    ):
        yield view
