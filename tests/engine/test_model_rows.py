"""How many rows a step has: as many as its kernels need, and no more than its arrays hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_model import VOCAB, tiny_network
from transformers import AutoModelForCausalLM, LlamaConfig

from decoder_service.forest import Forest
from decoder_service.kv_cache import Slot
from decoder_service.model import Model, ModelOptions
from decoder_service.packed_step import SlotStep
from decoder_service.products import Shape, check_product
from decoder_service.self_test import run_self_test


def model_with(max_rows: int, dtype: torch.dtype) -> Model:
    options = ModelOptions(dtype, torch.device("cpu"), 128, num_cache_positions=256, max_rows=max_rows)
    return Model(tiny_network("llama", dtype), options)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("max_rows", [3, 10, 13])
def test_a_step_of_the_most_rows_fits_although_it_is_padded(max_rows: int, dtype: torch.dtype) -> None:
    model, slot = model_with(max_rows, dtype), Slot()
    assert model.max_rows == -(-max_rows // 4) * 4
    tokens = np.random.default_rng(0).integers(0, VOCAB, max_rows).astype(np.int32)
    model.cache.reserve(slot, max_rows)
    output = model.forward([SlotStep(slot, Forest.chain(tokens), range(max_rows))])
    assert len(output.step.tokens) <= model.max_rows
    assert torch.isfinite(output.logits).all()
    model.commit(output, [(slot, range(max_rows))])
    assert slot.length == max_rows


def smaller_network() -> torch.nn.Module:
    """Its smallest product has 8 x 64 weights."""
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        max_position_embeddings=128,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    return network.to(torch.bfloat16).eval().requires_grad_(False)


def test_steps_of_a_tiny_model_have_rows_enough_for_one_kernel() -> None:
    """torch computes products of at most 16^3 multiplications another way: 8 x 64 weights need nine rows."""
    options = ModelOptions(torch.bfloat16, torch.device("cpu"), 128, num_cache_positions=256, max_rows=32)
    model = Model(smaller_network(), options)
    assert [model.num_rows_for(nodes) for nodes in (1, 8, 9, 10)] == [9, 9, 9, 10]
    report = run_self_test(model)
    assert report.is_exact, report.detail


def test_a_model_whose_products_are_large_enough_gets_two_rows() -> None:
    model = model_with(32, torch.bfloat16)
    assert [model.num_rows_for(nodes) for nodes in (1, 2, 3)] == [2, 2, 3]


@pytest.mark.parametrize("has_bias", [False, True])
def test_a_product_of_narrow_weights_is_the_same_at_every_safe_number_of_rows(has_bias: bool) -> None:
    assert check_product(Shape(64, 8, has_bias), torch.bfloat16, range(9, 40)).passed
