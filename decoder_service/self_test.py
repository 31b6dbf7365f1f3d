"""Checks on the loaded model and device that a position's results depend on its token prefix alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from decoder_service.forest import Forest, Int32Array
from decoder_service.kv_cache import Slot
from decoder_service.model import Model
from decoder_service.packed_step import SlotStep
from decoder_service.products import Product, Shape, check_product, linear_shapes

TREE_ROWS: Final = (5, 16, 24)
PRODUCT_NODES: Final = (1, 3, 5, 8, 12, 17, 25)  # of steps whose products are tried
WIDE_PRODUCT_NODES: Final = (1, 5, 25)  # of products over a large vocabulary, which take long


@dataclass(frozen=True, slots=True)
class SelfTestReport:
    """What the self-test found."""

    is_exact: bool
    detail: str


@dataclass(frozen=True, slots=True)
class _Results:
    """What the model computed for a text."""

    logits: torch.Tensor  # [tokens, vocab]
    keys: torch.Tensor  # [layers, tokens, kv_heads, head_dim]
    values: torch.Tensor  # [layers, tokens, kv_heads, head_dim]


def run_self_test(model: Model, text_len: int = 80, num_compared: int = 8, seed: int = 0) -> SelfTestReport:
    """Run one text through the model in different ways and compare every bit; try its matrix products alone, too.

    The ways: all at once; in pieces; the last tokens one by one, as plain decoding does; and inside draft trees of
    several sizes. The text crosses a block of the attention. A text cannot show every product that depends on the
    number of rows, products that cancel out can.
    """
    ways, differing = _compare_ways(model, text_len, num_compared, seed)
    differing += differing_products(model)
    shape = f"{text_len} tokens, {model.options.dtype}".replace("torch.", "")
    if differing:
        return SelfTestReport(
            False, f"{shape}: not bit-equal to one prefill: {', '.join(differing)}; tokens may differ"
        )
    return SelfTestReport(
        True,
        f"{shape}: bit-equal logits, keys and values: one prefill, {', '.join(ways)}; matrix products alike",
    )


def differing_products(model: Model) -> list[str]:
    """The shapes of the model's matrix products whose rows depend on their number, with such numbers of rows."""
    products = [_check_product(model, shape) for shape in linear_shapes(model.network)]
    return [
        f"matrix product {product.shape} at {', '.join(map(str, product.differing))} rows"
        for product in products
        if not product.passed
    ]


def _check_product(model: Model, shape: Shape) -> Product:
    num_nodes = WIDE_PRODUCT_NODES if shape.is_wide else PRODUCT_NODES
    counts = sorted({model.num_rows_for(min(nodes, model.max_rows)) for nodes in num_nodes})
    return check_product(shape, model.options.dtype, counts, model.options.device)


def _compare_ways(model: Model, text_len: int, num_compared: int, seed: int) -> tuple[list[str], list[str]]:
    """The ways that a text was run in, and those that gave other bits than one prefill."""
    generator = np.random.default_rng(seed)
    text = generator.integers(0, model.vocab_size, size=text_len).astype(np.int32)
    reference = _run(model, text, [text_len])
    tail = [text_len - num_compared]
    ways = {
        "prefill in pieces": _run(model, text, [text_len // 3, text_len - text_len // 3 - 5, 5]),
        "plain steps": _run(model, text, tail + [1] * num_compared),
        **{
            f"draft trees of {rows} rows": _run_in_trees(model, text, tail[0], rows, generator)
            for rows in sorted({min(rows, model.max_rows) for rows in TREE_ROWS})
        },
    }
    return list(ways), [name for name, results in ways.items() if not _equal(results, reference)]


def _run(model: Model, text: Int32Array, pieces: Sequence[int]) -> _Results:
    slot = Slot()
    model.cache.reserve(slot, len(text))
    logits: list[torch.Tensor] = []
    try:
        for piece in pieces:
            logits += _extend(model, slot, text[slot.length : slot.length + piece])
        return _Results(torch.cat(logits), *model.cache.read(slot))
    finally:
        model.cache.release(slot)


def _extend(model: Model, slot: Slot, text: Int32Array) -> list[torch.Tensor]:
    """Append a piece of text to a slot, in one step where the model takes so many rows; its logits."""
    logits = []
    for start in range(0, len(text), model.max_rows):
        known = text[start : start + model.max_rows]
        output = model.forward([SlotStep(slot, Forest.chain(known), range(len(known)))])
        model.commit(output, [(slot, range(len(known)))])
        logits.append(output.logits.clone())
    return logits


def _run_in_trees(
    model: Model, text: Int32Array, start: int, rows: int, generator: np.random.Generator
) -> _Results:
    """Verify the tail as drafts that are right, two tokens a step, among decoys."""
    slot = Slot()
    model.cache.reserve(slot, len(text))
    try:
        logits = _extend(model, slot, text[:start])
        while slot.length < len(text):
            forest, path = _tree_with_decoys(
                text[slot.length : slot.length + 2], rows, model.vocab_size, generator
            )
            output = model.forward([SlotStep(slot, forest, path)])
            model.commit(output, [(slot, path)])
            logits.append(output.logits.clone())
        return _Results(torch.cat(logits), *model.cache.read(slot))
    finally:
        model.cache.release(slot)


def _tree_with_decoys(
    right: Int32Array, rows: int, vocab_size: int, generator: np.random.Generator
) -> tuple[Forest, list[int]]:
    """A tree that holds ``right`` as a path at random nodes, and the path."""
    places = sorted(generator.choice(np.arange(1, rows), size=len(right) - 1, replace=False).tolist())
    path = [0, *places]
    tokens = generator.integers(0, vocab_size, size=rows).astype(np.int32)
    tokens[path] = right
    parents = [-1, *(int(generator.integers(0, node)) for node in range(1, rows))]
    for node, parent in zip(path[1:], path[:-1], strict=True):
        parents[node] = parent
    return Forest.of(tokens, parents), path


def _equal(left: _Results, right: _Results) -> bool:
    return (
        torch.equal(left.logits, right.logits)
        and torch.equal(left.keys, right.keys)
        and torch.equal(left.values, right.values)
    )
