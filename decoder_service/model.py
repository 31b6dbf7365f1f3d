"""The language model: the only module that loads one. Everything else sees forests in and logits out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import structlog
import torch
from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from decoder_service.attention import ForestAttention, UnsupportedModelError
from decoder_service.embedded_model import ModelFiles, save_atomically
from decoder_service.forest import Forest, Int32Array
from decoder_service.kv_cache import CacheShape, KvCache, Slot
from decoder_service.packed_step import PackedStep, SlotStep, num_blocks_for, pack

log = structlog.get_logger()

_names = (f"draftwell_{number}" for number in count())
_SUPPORTED_LAYERS = {"full_attention", "sliding_attention"}
_SMALL_PRODUCT = 16**3  # multiplications; torch's use_mkldnn_bf16_matmul asks for more
_PROBE_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-8}  # standard deviations; 0.25 for narrower types


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How to run a model."""

    dtype: torch.dtype
    device: torch.device
    max_context_len: int  # of a request, positions
    num_cache_positions: int  # of all requests together
    max_rows: int  # of a step


@dataclass(frozen=True, slots=True)
class StepLogits:
    """The logits of a step's wanted nodes."""

    logits: torch.Tensor  # [wanted, vocab]
    first_wanted: list[int]  # [requests], where a request's wanted nodes begin
    step: PackedStep


class Model:
    """A decoder-only model over a cache of its own."""

    def __init__(self, network: Any, options: ModelOptions) -> None:  # noqa: ANN401 - a transformers model
        self.network = network
        self.options = options
        config = network.config.get_text_config()
        _refuse_unsupported(config)
        self.vocab_size = int(config.vocab_size)
        self.context_len = min(int(config.max_position_embeddings), options.max_context_len)
        self.num_layers = int(config.num_hidden_layers)
        self._least_rows = _rows_past_small_products(network)
        num_heads = int(config.num_attention_heads)
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // num_heads
        self.cache = KvCache(
            CacheShape(
                self.num_layers,
                int(getattr(config, "num_key_value_heads", None) or num_heads),
                int(head_dim),
                num_blocks_for(max(options.num_cache_positions, self.context_len)),
                -(-max(options.max_rows, self._least_rows) // 4) * 4,  # what float32 steps are padded to
                options.dtype,
                options.device,
            )
        )
        self._attention = ForestAttention(self.cache, num_heads)
        name = next(_names)
        AttentionInterface.register(name, self._attention)
        config._attn_implementation = name

    @torch.inference_mode()
    def forward(self, steps: Sequence[SlotStep]) -> StepLogits:
        """One forward pass over all forests; their slots must have blocks for every row that may be committed."""
        step = pack(steps, self.num_rows_for(sum(len(each.forest) for each in steps)))
        self._attention.begin(step)
        wanted = self._pad_wanted(step.wanted)
        logits = self.network(
            input_ids=self._tensor(step.tokens),
            position_ids=self._tensor(step.positions),
            use_cache=False,
            logits_to_keep=self._tensor(wanted)[0],
        ).logits[0, : len(step.wanted)]
        if self._attention.layers_seen != self.num_layers:
            raise UnsupportedModelError(
                f"{self._attention.layers_seen} of {self.num_layers} layers used the attention that they were given"
            )
        ends = np.cumsum([len(each.wanted) for each in steps])
        return StepLogits(logits, [0, *ends[:-1].tolist()], step)

    def commit(self, output: StepLogits, accepted: Sequence[tuple[Slot, Sequence[int]]]) -> None:
        """Append, for each request of the step in order, these nodes' keys and values to its slot."""
        first_rows = output.step.first_rows
        self.cache.commit(
            [
                (slot, [first + node for node in nodes])
                for first, (slot, nodes) in zip(first_rows, accepted, strict=True)
            ]
        )

    @property
    def max_rows(self) -> int:
        """Rows that a step may have."""
        return self.cache.shape.max_rows

    def num_rows_for(self, num_nodes: int) -> int:
        """Rows that a step of so many nodes is padded to, so that its rows do not depend on their number.

        CPU kernels have that property from 2 rows up in bfloat16, but for tiny products, and at multiples of 4 in
        float32; elsewhere kernels are chosen by the number of rows, so that every step has ``max_rows``.
        """
        if self.options.device.type != "cpu":
            return self.max_rows
        if self.options.dtype == torch.bfloat16:
            return max(num_nodes, self._least_rows)
        return -(-num_nodes // 4) * 4

    def _pad_wanted(self, wanted: np.ndarray) -> np.ndarray:
        """The rows whose logits are computed: the wanted ones, and row 0 again up to a safe number of rows."""
        padding = self.num_rows_for(max(len(wanted), 1)) - len(wanted)
        return np.concatenate([wanted, np.zeros(padding, dtype=np.int32)])

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array.astype(np.int64))[None].to(self.options.device)

    @torch.inference_mode()
    def probe(self) -> float:
        """Root mean square difference between this engine's logits and the model's own on a short text, in
        standard deviations of the logits.

        Raises UnsupportedModelError where they are not the same function.
        """
        tokens = np.random.default_rng(0).integers(0, self.vocab_size, size=24).astype(np.int32)
        ours = self._logits_of(tokens)
        config = self.network.config.get_text_config()
        own = "sdpa" if self.options.dtype == torch.float64 else "eager"  # eager takes softmax in float32
        name, config._attn_implementation = config._attn_implementation, own
        try:
            theirs = self.network(input_ids=self._tensor(tokens), use_cache=False).logits[0]
        finally:
            config._attn_implementation = name
        scale = float(theirs.double().std()) + 1e-12
        difference = float((ours.double() - theirs.double()).square().mean().sqrt()) / scale
        if not difference <= _PROBE_TOLERANCE.get(self.options.dtype, 0.25):
            raise UnsupportedModelError(
                f"the model's own attention gives other logits (by {difference:.3g} standard deviations): "
                f"architecture {type(self.network).__name__} is not supported"
            )
        return difference

    def _logits_of(self, tokens: Int32Array) -> torch.Tensor:
        """[tokens, vocab] of a text, in as few steps as it takes."""
        slot, logits = Slot(), []
        self.cache.reserve(slot, len(tokens))
        try:
            for start in range(0, len(tokens), self.max_rows):
                piece = Forest.chain(tokens[start : start + self.max_rows])
                output = self.forward([SlotStep(slot, piece, range(len(piece)))])
                self.commit(output, [(slot, range(len(piece)))])
                logits.append(output.logits)
        finally:
            self.cache.release(slot)
        return torch.cat(logits)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model with its tokenizer and identity."""

    name: str
    model: Model
    tokenizer: PreTrainedTokenizerBase
    fingerprint: str
    eos_token_ids: tuple[int, ...]


def load_model(files: ModelFiles, options: ModelOptions) -> LoadedModel:
    """Load, converting a GGUF file first, and check that the engine computes what the model computes."""
    weights_dtype = torch.bfloat16 if options.dtype == torch.bfloat16 else torch.float32
    files = files.in_dtype(str(weights_dtype).removeprefix("torch."))
    if files.gguf is not None:
        log.info("converting the model, once", folder=str(files.folder), dtype=str(weights_dtype))
        save_atomically(files.folder, lambda folder: _convert(files.gguf, folder, weights_dtype))
    network = AutoModelForCausalLM.from_pretrained(
        files.folder, dtype=options.dtype, attn_implementation="eager"
    )
    network = network.eval().requires_grad_(False).to(options.device)
    tokenizer = AutoTokenizer.from_pretrained(files.folder)
    model = Model(network, options)
    model.probe()
    fingerprint = tokenizer_fingerprint(tokenizer, model.vocab_size)
    return LoadedModel(files.name, model, tokenizer, fingerprint, _eos_token_ids(network, tokenizer))


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> str:
    """What a token id means: equal for tokenizers whose ids are interchangeable."""
    vocab = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    digest = hashlib.sha256(json.dumps([vocab_size, vocab], ensure_ascii=True).encode())
    return digest.hexdigest()[:32]


def _convert(gguf: Path | None, folder: Path, dtype: torch.dtype) -> None:
    assert gguf is not None
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    network = AutoModelForCausalLM.from_pretrained(**source, dtype=dtype)
    if hasattr(network.config, "quantization_config"):
        del network.config.quantization_config
    network.hf_quantizer = None
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _eos_token_ids(network: Any, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:  # noqa: ANN401
    """Every token that ends a turn: the generation config's, the config's and the tokenizer's."""
    found: set[int] = set()
    for value in (
        network.generation_config.eos_token_id,
        network.config.eos_token_id,
        tokenizer.eos_token_id,
    ):
        found.update(value if isinstance(value, list | tuple) else [] if value is None else [value])
    return tuple(sorted(int(each) for each in found))


def _rows_past_small_products(network: Any) -> int:  # noqa: ANN401 - a transformers model
    """Fewest rows, 2 at least, with which no matrix product is so small that torch leaves oneDNN for another kernel."""
    sizes = [module.weight.numel() for module in network.modules() if isinstance(module, torch.nn.Linear)]
    return max(2, _SMALL_PRODUCT // min(sizes, default=_SMALL_PRODUCT) + 1)


def _refuse_unsupported(config: Any) -> None:  # noqa: ANN401 - a transformers config
    unknown = set(getattr(config, "layer_types", None) or []) - _SUPPORTED_LAYERS
    if unknown:
        raise UnsupportedModelError(f"layers of type {sorted(unknown)} are not supported")
