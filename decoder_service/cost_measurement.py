"""Measures what steps of a model cost on this machine, once: the result is kept beside the converted models."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import structlog
import torch

from decoder_service.forest import Forest
from decoder_service.kv_cache import Slot
from decoder_service.model import Model
from decoder_service.packed_step import SlotStep
from decoder_service.sampling import argmax_rows
from decoder_service.step_cost import MeasuredCost

ROWS: Final = (1, 2, 4, 8, 12, 16, 24, 32, 64, 128, 256)
CONTEXTS: Final = (64, 512)  # positions
BUDGET_S: Final = 2.0
MOST_REPEATS: Final = 5
_FORMAT: Final = 1

log = structlog.get_logger()


def measured_cost(model: Model, most_rows: int, cache_folder: Path) -> MeasuredCost:
    """The cost of steps of up to ``most_rows`` rows, from the cache or measured now, in about two seconds."""
    path = cache_folder / "step-costs" / f"{_key(model, most_rows)}.json"
    kept = _read(path)
    if kept is not None:
        return kept
    measured = measure(model, most_rows)
    log.info(
        "measured steps",
        rows=measured.rows,
        milliseconds=[round(each, 2) for each in measured.milliseconds[0]],
    )
    _write(path, measured)
    return measured


def measure(model: Model, most_rows: int, budget_s: float = BUDGET_S) -> MeasuredCost:
    """Time steps of a chain of draft rows under a short context and a long one, in turns, until time is up."""
    most_rows = min(most_rows, model.max_rows)
    rows = tuple(number for number in ROWS if number <= most_rows) or (1,)
    contexts = _contexts(model, rows[-1])
    slots = [_filled(model, length) for length in contexts]
    try:
        times: dict[tuple[int, int], list[float]] = {}
        began_s = time.monotonic()
        _time_step(model, slots[0], rows[-1])  # makes everything ready
        for _ in range(MOST_REPEATS):
            for number in rows:
                for place, slot in enumerate(slots):
                    times.setdefault((place, number), []).append(_time_step(model, slot, number))
            if time.monotonic() - began_s > budget_s:
                break
    finally:
        for slot in slots:
            model.cache.release(slot)
    short, long = (tuple(median(times[place, number]) for number in rows) for place in range(2))
    return MeasuredCost(rows, contexts, (short, long))


def _contexts(model: Model, num_rows: int) -> tuple[int, int]:
    """A short context and a long one that the model and its cache have room for."""
    room = min(model.context_len, model.options.num_cache_positions // 2) - num_rows
    long = max(min(CONTEXTS[1], room), 2)
    return min(CONTEXTS[0], long // 2), long


def _filled(model: Model, length: int) -> Slot:
    """A slot that holds so many positions."""
    slot = Slot()
    model.cache.reserve(slot, length)
    tokens = np.random.default_rng(0).integers(0, model.vocab_size, length).astype(np.int32)
    for start in range(0, length, model.max_rows):
        piece = Forest.chain(tokens[start : start + model.max_rows])
        output = model.forward([SlotStep(slot, piece, [len(piece) - 1])])
        model.commit(output, [(slot, range(len(piece)))])
    return slot


def _time_step(model: Model, slot: Slot, num_rows: int) -> float:
    """Milliseconds of a step that commits nothing; every row is wanted."""
    forest = Forest.chain(np.arange(num_rows, dtype=np.int32) % model.vocab_size)
    began_s = time.perf_counter()
    argmax_rows(model.forward([SlotStep(slot, forest, range(num_rows))]).logits)
    return (time.perf_counter() - began_s) * 1000


def _key(model: Model, most_rows: int) -> str:
    """What the cost depends on: hardware, threads, libraries and the model's shape."""
    options = model.options
    device = torch.cuda.get_device_name(options.device) if options.device.type == "cuda" else _processor()
    facts = [
        _FORMAT,
        device,
        os.cpu_count(),
        torch.get_num_threads(),
        torch.__version__,
        str(options.dtype),
        most_rows,
        type(model.network).__name__,
        model.vocab_size,
        [list(each.shape) for each in model.network.parameters()],
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _read(path: Path) -> MeasuredCost | None:
    """What was kept; None where nothing sound is there."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(map(int, kept["rows"]))
        first, last = map(int, kept["contexts"])
        short, long = (_times(kept["milliseconds"][place], len(rows)) for place in range(2))
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    return MeasuredCost(rows, (first, last), (short, long)) if rows and first < last else None


def _times(values: Sequence[object], number: int) -> tuple[float, ...]:
    times = tuple(float(value) for value in values)  # type: ignore[arg-type]
    if len(times) != number or not all(0 < each < 1e7 for each in times):
        raise ValueError(f"{values} are not {number} times")
    return times


def _write(path: Path, measured: MeasuredCost) -> None:
    """Keep for the next start; a folder that cannot be written costs the next start two seconds."""
    fields = {"rows": measured.rows, "contexts": measured.contexts, "milliseconds": measured.milliseconds}
    new = path.with_suffix(f".{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps(fields), encoding="utf-8")
        new.replace(path)
    except OSError as error:
        log.warning("cannot keep what steps cost", path=str(path), error=str(error))
