"""What the model computes for a forest: right, and a function of each row's visible tokens alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tiny_model import CONFIGS, VOCAB, tiny_model, tiny_network

from decoder_service.forest import Forest, Int32Array
from decoder_service.kv_cache import KvCache, Slot
from decoder_service.model import Model
from decoder_service.packed_step import SlotStep
from tests.verify.decode import Computed, prefill, same_bits

POISON = 2  # a token whose embedding is poisoned; no text holds it
DTYPES = [torch.float64, torch.float32, torch.bfloat16]
VALUES = [float("nan"), float("inf"), 1e30]
CONTEXT_LENS = [0, 30, 63, 64, 130]


def random_text(generator: np.random.Generator, length: int) -> Int32Array:
    return generator.integers(POISON + 1, VOCAB, length).astype(np.int32)


def random_forest(generator: np.random.Generator, size: int) -> Forest:
    parents = [int(generator.integers(max(-1, node - 5), node)) for node in range(size)]
    return Forest.of(random_text(generator, size), parents)


def slot_with(model: Model, text: Int32Array, room: int) -> Slot:
    """A slot that holds ``text``, with blocks for ``room`` more positions."""
    slot = Slot()
    model.cache.reserve(slot, len(text) + room)
    if len(text):
        output = model.forward([SlotStep(slot, Forest.chain(text), ())])
        model.commit(output, [(slot, range(len(text)))])
    return slot


def forward(model: Model, slot: Slot, forest: Forest) -> torch.Tensor:
    return model.forward([SlotStep(slot, forest, range(len(forest)))]).logits.clone()


@pytest.mark.parametrize("context_len", CONTEXT_LENS)
@pytest.mark.parametrize("kind", CONFIGS)
def test_forest_rows_equal_causal_runs_of_their_paths(kind: str, context_len: int) -> None:
    """The reference is transformers' own network in float64, run on the context and the row's root path."""
    model, reference = tiny_model(kind, torch.float64), tiny_network(kind, torch.float64)
    reference.set_attn_implementation("sdpa")
    generator = np.random.default_rng(context_len)
    texts = [random_text(generator, length) for length in (context_len, context_len // 2 + 1)]
    forests = [random_forest(generator, size) for size in (24, 9)]
    steps = [
        SlotStep(slot_with(model, text, len(forest)), forest, range(len(forest)))
        for text, forest in zip(texts, forests, strict=True)
    ]
    output = model.forward(steps)
    for text, forest, first in zip(texts, forests, output.first_wanted, strict=True):
        for node in range(len(forest)):
            path = [*text.tolist(), *forest.tokens[forest.path_to(node)].tolist()]
            expected = reference(input_ids=torch.tensor([path]), use_cache=False).logits[0, -1]
            assert (output.logits[first + node] - expected).abs().max() < 1e-10


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", CONFIGS)
def test_committed_paths_leave_what_a_prefill_of_them_leaves(kind: str, dtype: torch.dtype) -> None:
    model, generator = tiny_model(kind, dtype), np.random.default_rng(5)
    text = random_text(generator, 60)
    slot = slot_with(model, text, room=100)
    while slot.length < 120:
        forest = random_forest(generator, 20)
        path = forest.path_to(int(generator.integers(20)))
        output = model.forward([SlotStep(slot, forest, path)])
        model.commit(output, [(slot, path)])
        text = np.concatenate([text, forest.tokens[path]])
    keys, values = model.cache.read(slot)
    expected = prefill(model, text, len(text) - 1, rows=150)
    assert same_bits(keys, expected.keys)
    assert same_bits(values, expected.values)
    assert same_bits(output.logits[-1:], expected.logits)


def poison_the_cache(model: Model, slots: Sequence[Slot], value: float) -> None:
    """Overwrite everything that no row may see: free blocks, places past a slot's length, the last step's rows."""
    cache = model.cache
    kept = [(slot, *cache.read(slot)) for slot in slots]
    for buffer in (cache.keys, cache.values, cache.step_keys, cache.step_values):
        buffer.fill_(value)
    for slot, keys, values in kept:
        for position in range(slot.length):
            block, offset = slot.blocks[position // 64], position % 64
            cache.keys[:, block, :, :, offset] = keys[:, position]
            cache.values[:, block, :, offset] = values[:, position]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", CONFIGS)
def test_poison_in_the_cache_changes_no_bit(kind: str, dtype: torch.dtype, value: float) -> None:
    model, generator = tiny_model(kind, dtype), np.random.default_rng(3)
    slots = [slot_with(model, random_text(generator, length), room=24) for length in (40, 64, 100)]
    forests = [random_forest(generator, size) for size in (1, 12, 9)]
    steps = [SlotStep(slot, forest, range(len(forest))) for slot, forest in zip(slots, forests, strict=True)]
    poison_the_cache(model, slots, 0.0)
    clean = model.forward(steps).logits.clone()
    poison_the_cache(model, slots, value)
    assert same_bits(model.forward(steps).logits, clean)
    assert torch.isfinite(clean).all()


def poison_projections(model: Model, rows: Sequence[int], value: float) -> list[Any]:
    """Make every layer compute ``value`` as these rows' keys and values; return the hooks."""

    def overwrite(_module: object, _inputs: object, output: torch.Tensor) -> torch.Tensor:
        poisoned = output.clone()
        poisoned[:, rows] = value
        return poisoned

    names = ("k_proj", "v_proj")
    modules = [module for name, module in model.network.named_modules() if name.endswith(names)]
    assert len(modules) == 2 * model.num_layers
    return [module.register_forward_hook(overwrite) for module in modules]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_poison_in_other_branches_changes_no_bit(dtype: torch.dtype, value: float) -> None:
    """The keys and values of all nodes but one path are poisoned; the path's rows stay as they were."""
    model, generator = tiny_model("llama", dtype), np.random.default_rng(4)
    slot = slot_with(model, random_text(generator, 50), room=40)
    forest = random_forest(generator, 30)
    clean = forward(model, slot, forest)
    for node in range(0, 30, 3):
        path = forest.path_to(node)
        hooks = poison_projections(model, [row for row in range(30) if row not in path], value)
        try:
            poisoned = forward(model, slot, forest)
        finally:
            for hook in hooks:
                hook.remove()
        assert same_bits(poisoned[path], clean[path])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_poisoned_token_poisons_its_descendants_alone(dtype: torch.dtype) -> None:
    model, generator = tiny_model("llama", dtype), np.random.default_rng(6)
    model.network.get_input_embeddings().weight.data[POISON] = float("nan")
    slot = slot_with(model, random_text(generator, 50), room=40)
    forest = random_forest(generator, 30)
    clean = forward(model, slot, forest)
    for bad in range(0, 30, 3):
        tokens = forest.tokens.copy()
        tokens[bad] = POISON
        poisoned = forward(model, slot, Forest.of(tokens, forest.parents))
        for node in range(30):
            if bad in forest.path_to(node):
                assert poisoned[node].isnan().all()
            else:
                assert same_bits(poisoned[node], clean[node])


@pytest.mark.parametrize("rows", [7, 64, 100])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_prefill_in_pieces_computes_what_one_prefill_computes(dtype: torch.dtype, rows: int) -> None:
    model = tiny_model("llama", dtype)
    text = random_text(np.random.default_rng(8), 140)
    at_once, in_pieces = prefill(model, text, 0, rows=150), prefill(model, text, 0, rows)
    for left, right in zip(_tensors(at_once), _tensors(in_pieces), strict=True):
        assert same_bits(left, right)


def _tensors(computed: Computed) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return computed.logits, computed.keys, computed.values


def test_where_a_request_lies_in_the_cache_changes_no_bit() -> None:
    model, generator = tiny_model("llama", torch.bfloat16), np.random.default_rng(9)
    text, forest = random_text(generator, 130), random_forest(generator, 20)
    cache: KvCache = model.cache
    first = slot_with(model, text, 20)
    logits = forward(model, first, forest)
    blocker = Slot()
    cache.reserve(blocker, 200)
    cache.release(first)
    second = slot_with(model, text, 20)
    assert second.blocks != first.blocks
    assert same_bits(forward(model, second, forest), logits)
