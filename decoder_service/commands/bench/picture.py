"""A benchmark's figures as a picture: speed by system and task, accepted lengths, and steps by window.

Needs matplotlib: ``pip install 'draftwell[bench]'``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decoder_service.commands.bench.figures import Figures
from decoder_service.errors import DecoderError

_SUFFIXES = (".png", ".svg")


class NoPicture(DecoderError):
    """The picture cannot be drawn; the text says why."""


def check_picture(path: Path) -> None:
    """Raise NoPicture before anything is measured for nothing."""
    if path.suffix not in _SUFFIXES:
        raise NoPicture(f"{path} is neither of {', '.join(_SUFFIXES)}")
    _pyplot()


def draw(lines: Sequence[Figures], path: Path) -> None:
    """Draw the first pass at the first concurrency, and the sweep of windows where there are several."""
    shown = [line for line in lines if line.pass_number == 1 and line.concurrency == lines[0].concurrency]
    swept = _sweep(shown)
    plt = _pyplot()
    figure, axes = plt.subplots(2 + bool(swept), 1, figsize=(11, 5 * (2 + bool(swept))))
    _draw_speeds(axes[0], [line for line in shown if not line.system.startswith("lookahead:")] or shown)
    _draw_lengths(axes[1], shown)
    if swept:
        _draw_sweep(axes[2], swept)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def _pyplot() -> Any:  # noqa: ANN401 - matplotlib has no types here
    try:
        import matplotlib
    except ImportError as error:
        raise NoPicture("a picture needs matplotlib: pip install 'draftwell[bench]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def _draw_speeds(axes: Any, lines: Sequence[Figures]) -> None:  # noqa: ANN401
    tasks = sorted({task for line in lines for task in line.speed_by_task})
    width = 0.8 / max(len(lines), 1)
    for number, line in enumerate(lines):
        places = [task + number * width for task in range(len(tasks))]
        axes.bar(places, [line.speed_by_task.get(task, 0.0) for task in tasks], width, label=line.system)
    axes.set_xticks([task + 0.4 - width / 2 for task in range(len(tasks))], tasks)
    axes.axhline(1.0, color="black", linewidth=0.8)
    against = "hf-generate" if any(line.against_peer for line in lines) else "plain decoding"
    axes.set_ylabel(f"speed against {against}, median")
    axes.legend(ncols=4, fontsize="small")


def _draw_lengths(axes: Any, lines: Sequence[Figures]) -> None:  # noqa: ANN401
    for line in lines:
        num_steps = sum(line.accepted_len_histogram)
        shares = [count / num_steps for count in line.accepted_len_histogram]
        axes.plot(range(len(shares)), shares, marker=".", label=line.system)
    axes.set_yscale("log")
    axes.set_xlabel("draft tokens that a step accepted")
    axes.set_ylabel("share of steps")
    axes.legend(ncols=4, fontsize="small")


def _draw_sweep(axes: Any, swept: dict[int, dict[int, float]]) -> None:  # noqa: ANN401
    for ngram, by_width in sorted(swept.items()):
        widths = sorted(by_width)
        axes.plot(widths, [by_width[width] for width in widths], marker="o", label=f"N = {ngram}")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("W, columns of the window")
    axes.set_ylabel("steps a token")
    axes.legend()


def _sweep(lines: Sequence[Figures]) -> dict[int, dict[int, float]]:
    """Steps a token by N and W, where several windows were measured."""
    found: dict[int, dict[int, float]] = {}
    for line in lines:
        if line.system.startswith("lookahead:"):
            width, ngram, _ = map(int, line.system.partition(":")[2].split("x"))
            found.setdefault(ngram, {})[width] = 1 / line.tokens_per_step
    return found if sum(map(len, found.values())) > 1 else {}
