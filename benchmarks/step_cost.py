"""What a step of this engine costs beside transformers' own forward pass, in one run, interleaved against drift.

    python benchmarks/step_cost.py [--context 512] [--rows 16] [--repeats 40] [--json]

Three ratios: a step of ``--rows`` rows against transformers with an ordinary masked attention over the same rows
(what exactness costs); a plain step against a bare loop of transformers' forward with its growing cache; and,
with ``--service ADDRESS``, plain decoding through a running decoder service against the same bare loop.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from transformers import AutoModelForCausalLM, DynamicCache

from decoder_service.config import default_cache_folder
from decoder_service.embedded_model import EMBEDDED, locate_model
from decoder_service.forest import Forest
from decoder_service.kv_cache import Slot
from decoder_service.model import Model, ModelOptions, load_model
from decoder_service.packed_step import SlotStep

Timed = Callable[[], None]


class Peer:
    """transformers' own model with sdpa attention and its growing cache."""

    def __init__(self, folder: Path, dtype: torch.dtype, text: np.ndarray, num_rows: int) -> None:
        self.network = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation="sdpa"
        ).eval()
        self._cache = DynamicCache(config=self.network.config)
        self._context = len(text)
        self._run(torch.from_numpy(text.astype(np.int64))[None], None)
        self._rows = torch.arange(1, num_rows + 1)[None]
        self._mask = tree_mask(self._context, num_rows, dtype)

    @torch.inference_mode()
    def masked_step(self) -> None:
        """All rows in one pass under a tree mask, then the cache as it was."""
        self._run(self._rows, self._mask)
        self._cache.crop(-self._rows.shape[1])

    @torch.inference_mode()
    def plain_step(self) -> None:
        """One row, argmax, then the cache as it was."""
        int(self._run(self._rows[:, :1], None)[0, -1].argmax())
        self._cache.crop(-1)

    @torch.inference_mode()
    def _run(self, tokens: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        past = self._cache.get_seq_length()
        positions = torch.arange(past, past + tokens.shape[1])[None]
        output = self.network(
            tokens, position_ids=positions, attention_mask=mask, past_key_values=self._cache, use_cache=True
        )
        logits: torch.Tensor = output.logits
        return logits


def tree_mask(context: int, num_rows: int, dtype: torch.dtype) -> torch.Tensor:
    """Two chains under one root, as an additive mask [1, 1, rows, context + rows]."""
    visible = np.eye(num_rows, dtype=bool)
    for row in range(1, num_rows):
        visible[row] |= visible[max(row - 2, 0)]
    mask = torch.zeros(1, 1, num_rows, context + num_rows, dtype=dtype)
    mask[0, 0, :, context:].masked_fill_(~torch.from_numpy(visible), torch.finfo(dtype).min)
    return mask


class Ours:
    """This engine's model with the same context."""

    def __init__(self, model: Model, text: np.ndarray, num_rows: int) -> None:
        self._model = model
        self._slot = Slot()
        model.cache.reserve(self._slot, len(text) + num_rows)
        for start in range(0, len(text), 128):
            piece = text[start : start + 128]
            output = model.forward([SlotStep(self._slot, Forest.chain(piece), [])])
            model.commit(output, [(self._slot, range(len(piece)))])
        parents = [-1, *(max(row - 2, 0) for row in range(1, num_rows))]
        self._forest = Forest.of(list(range(1, num_rows + 1)), parents)

    def tree_step(self) -> None:
        """All rows in one pass, all logits."""
        self._model.forward([SlotStep(self._slot, self._forest, range(len(self._forest)))])

    def plain_step(self) -> None:
        """One row, argmax."""
        output = self._model.forward([SlotStep(self._slot, Forest.chain([1]), [0])])
        int(output.logits[0].argmax())


def interleaved(steps: dict[str, Timed], repeats: int) -> dict[str, list[float]]:
    """Milliseconds of each step, taken in turn; three rounds of warm-up are not counted."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(repeats + 3):
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            if repeat >= 3:
                times[name].append((time.perf_counter() - began) * 1000)
    return times


def summary(times: dict[str, list[float]], ours: str, theirs: str) -> dict[str, Any]:
    """Medians, and the ratio's median and quartiles pair by pair."""
    ratios = sorted(mine / other for mine, other in zip(times[ours], times[theirs], strict=True))
    low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "ours_ms": round(statistics.median(times[ours]), 2),
        "theirs_ms": round(statistics.median(times[theirs]), 2),
        "ratio": round(statistics.median(times[ours]) / statistics.median(times[theirs]), 3),
        "paired_ratio_quartiles": [round(low, 3), round(statistics.median(ratios), 3), round(high, 3)],
    }


def service_ratio(
    address: str, network: torch.nn.Module, prompt_len: int, num_tokens: int, rounds: int
) -> dict[str, Any]:
    """Milliseconds a token: plain decoding through the service against a bare loop, in turn on the same prompt."""
    from decoder_service.client import Client, Drafts, Stop

    prompt = np.random.default_rng(1).integers(1000, 40_000, size=prompt_len)
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    with Client(address) as client:
        for number in range(rounds + 1):
            stop, drafts = Stop(max_tokens=num_tokens, ignore_eos=True), Drafts(sources=(), learn=False)
            result = client.generate(prompt.tolist(), stop=stop, drafts=drafts).result()
            ours = result.timings.decode_ms / (len(result.token_ids) - 1)
            theirs = bare_loop(network, torch.from_numpy(prompt)[None], num_tokens)
            if number:
                times["ours"].append(ours)
                times["theirs"].append(theirs)
    return summary(times, "ours", "theirs")


@torch.inference_mode()
def bare_loop(network: torch.nn.Module, tokens: torch.Tensor, num_tokens: int) -> float:
    """Milliseconds a token of a greedy loop over transformers' forward with its cache, prompt not counted."""
    cache = DynamicCache(config=network.config)
    token = network(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1:].argmax(-1)
    began = time.perf_counter()
    for _ in range(num_tokens - 1):
        token = network(token, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
    return (time.perf_counter() - began) * 1000 / (num_tokens - 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--context", type=int, default=512, help="cached positions")
    parser.add_argument("--rows", type=int, default=16, help="rows of the draft step")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--service", metavar="ADDRESS", help="a running decoder service to measure too")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    files = locate_model(EMBEDDED, default_cache_folder())
    loaded = load_model(files, ModelOptions(dtype, torch.device("cpu"), 8192, 8192, 256))
    text = np.random.default_rng(0).integers(1000, 40_000, size=options.context).astype(np.int32)
    peer, ours = Peer(files.folder, dtype, text, options.rows), Ours(loaded.model, text, options.rows)
    steps = {
        "ours_tree": ours.tree_step,
        "theirs_masked": peer.masked_step,
        "ours_plain": ours.plain_step,
        "theirs_plain": peer.plain_step,
    }
    times = interleaved(steps, options.repeats)
    report: dict[str, Any] = {
        "machine": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dtype": options.dtype,
        "context": options.context,
        "rows": options.rows,
        "draft_step_against_masked": summary(times, "ours_tree", "theirs_masked"),
        "plain_step_against_bare_forward": summary(times, "ours_plain", "theirs_plain"),
    }
    if options.service:
        report["plain_service_against_bare_loop"] = service_ratio(options.service, peer.network, 64, 96, 5)
    print(json.dumps(report, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
