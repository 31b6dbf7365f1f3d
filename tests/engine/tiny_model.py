"""Small random models for tests: real architectures, fixed seeds, nothing to download."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    PreTrainedTokenizerBase,
)

from decoder_service.model import LoadedModel, Model, ModelOptions

VOCAB = 64
CONTEXT_LEN = 512
EOS = (0, 1)
WINDOW = 24
_INIT = {"initializer_range": 0.25, "eos_token_id": EOS[0], "bos_token_id": None, "pad_token_id": None}
_LLAMA = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,  # smaller products than 16^3 take another path in torch, with another order of summation
    "max_position_embeddings": CONTEXT_LEN,
    "tie_word_embeddings": False,
}


def llama_config() -> PretrainedConfig:
    """Rotary positions, grouped heads."""
    return LlamaConfig(**_LLAMA, **_INIT)


def gpt2_config() -> PretrainedConfig:
    """Learned positions, biases, one key head a query head."""
    return GPT2Config(
        vocab_size=VOCAB,
        n_embd=64,
        n_layer=2,
        n_head=4,
        n_positions=CONTEXT_LEN,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=False,
        **_INIT,
    )


def sliding_config() -> PretrainedConfig:
    """Every layer sees the newest positions only."""
    return MistralConfig(**_LLAMA, sliding_window=WINDOW, **_INIT)


CONFIGS: dict[str, Callable[[], PretrainedConfig]] = {
    "llama": llama_config,
    "gpt2": gpt2_config,
    "sliding": sliding_config,
}


def tiny_network(kind: str, dtype: torch.dtype, seed: int = 0) -> Any:
    """A random network as transformers makes it; the same seed gives the same weights."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = AutoModelForCausalLM.from_config(CONFIGS[kind](), attn_implementation="eager")
    return network.to(dtype).eval().requires_grad_(False)


def tiny_model(kind: str = "llama", dtype: torch.dtype = torch.float32, seed: int = 0) -> Model:
    """The engine's model over such a network."""
    options = ModelOptions(
        dtype, torch.device("cpu"), CONTEXT_LEN, num_cache_positions=4 * CONTEXT_LEN, max_rows=160
    )
    return Model(tiny_network(kind, dtype, seed), options)


class TinyTokenizer:
    """Letters and spaces; the end tokens are silent."""

    def decode(self, tokens: list[int], *, skip_special_tokens: bool) -> str:
        """One character a token."""
        assert skip_special_tokens
        return "".join(chr(ord("0") + token) for token in tokens if token not in EOS)


def loaded(model: Model, eos_token_ids: tuple[int, ...] = EOS) -> LoadedModel:
    """The model as the engine takes it."""
    tokenizer = cast("PreTrainedTokenizerBase", TinyTokenizer())
    return LoadedModel("tiny", model, tokenizer, "tiny", eos_token_ids)


@contextmanager
def one_thread() -> Iterator[None]:
    """Small products gain nothing from a second thread, and lose much where other programs want the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
