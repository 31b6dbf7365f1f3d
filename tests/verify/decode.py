"""Runs requests through an engine and keeps every bit of what came out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from decoder_service.calibration import Calibration
from decoder_service.draft import DraftSource, Source
from decoder_service.drafts.prompt import OwnTextSource
from decoder_service.engine import Engine
from decoder_service.engine_config import EngineConfig
from decoder_service.forest import Forest, Int32Array
from decoder_service.kv_cache import Slot
from decoder_service.model import LoadedModel, Model
from decoder_service.packed_step import SlotStep
from decoder_service.planner import Planner
from decoder_service.request import (
    DraftChoice,
    Event,
    FinishedEvent,
    GenerationRequest,
    StepEvent,
    StopConditions,
)
from decoder_service.sampling import SamplingParams
from decoder_service.stream import Stream

PLAIN = DraftChoice(frozenset(), 0, "", learn=False)
DRAFTED = DraftChoice(frozenset({Source.OWN, Source.INDEX}), 24, "", learn=False)
CONFIG = EngineConfig(max_streams=4, prefill_rows=96, draft_nodes=24, min_probability=0.0)


@dataclass(frozen=True, slots=True)
class Computed:
    """What the model computed for a text; row i belongs to position ``first`` + i."""

    logits: torch.Tensor  # [rows, vocab]
    keys: torch.Tensor  # [layers, positions, kv_heads, head_dim], from position 0 on
    values: torch.Tensor  # [layers, positions, kv_heads, head_dim]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A finished request."""

    text: Int32Array  # [len], prompt and output
    output: list[int]  # as it was emitted; a resumed part is not in it
    shown: str
    computed: Computed  # logits that chose the output; keys and values of all but the newest token
    finished: FinishedEvent
    steps: list[StepEvent]


class Recorder:
    """Keeps one stream's events and logits."""

    def __init__(self, model: Model) -> None:
        self.stream: Stream | None = None
        self.logits: dict[int, torch.Tensor] = {}  # by the position that they choose
        self.steps: list[StepEvent] = []
        self.decoded: Decoded | None = None
        self._model = model

    def take(self, event: Event) -> None:
        """The stream's sink."""
        if isinstance(event, StepEvent):
            self.steps.append(event)
        elif isinstance(event, FinishedEvent):
            self.decoded = self._decoded(event)

    def _decoded(self, finished: FinishedEvent) -> Decoded:
        assert self.stream is not None
        text = self.stream.text.copy()
        output = [token for step in self.steps for token in step.tokens]
        keys, values = (each[:, : len(text) - 1] for each in self._model.cache.read(self.stream.slot))
        positions = range(len(text) - len(output), len(text))
        rows = [self.logits[position] for position in positions]
        logits = torch.stack(rows) if rows else torch.empty(0)
        shown = "".join(step.text for step in self.steps) + finished.text
        return Decoded(text, output, shown, Computed(logits, keys, values), finished, self.steps)


def request(
    prompt: Int32Array,
    *,
    max_tokens: int = 32,
    sampling: SamplingParams | None = None,
    drafts: DraftChoice = PLAIN,
    resumed: Sequence[int] = (),
    **stop: object,
) -> GenerationRequest:
    """A request; ``stop`` are further fields of StopConditions."""
    conditions = StopConditions(max_tokens, **stop)  # type: ignore[arg-type]
    return GenerationRequest(
        "verify", prompt, sampling or SamplingParams(), conditions, drafts, tuple(resumed)
    )


def new_engine(
    loaded: LoadedModel, sources: Sequence[DraftSource] = (), config: EngineConfig = CONFIG
) -> Engine:
    """An engine that drafts from the requests' own text and from ``sources``."""
    calibration = Calibration()
    return Engine(loaded, [OwnTextSource(calibration), *sources], Planner(calibration), config)


def decode(
    loaded: LoadedModel,
    requests: Sequence[GenerationRequest],
    sources: Sequence[DraftSource] = (),
    config: EngineConfig = CONFIG,
    *,
    watch: Callable[[Engine], None] | None = None,
) -> list[Decoded]:
    """Run requests to their end, as many at once as the engine takes; ``watch`` is called before every step."""
    model, engine = loaded.model, new_engine(loaded, sources, config)
    num_free = model.cache.num_free_blocks
    recorders = [Recorder(model) for _ in requests]
    by_number: dict[int, Recorder] = {}
    for each, recorder in zip(requests, recorders, strict=True):
        recorder.stream = engine.add(each, recorder.take)
        by_number[recorder.stream.number] = recorder

    def keep(stream: Stream, position: int, logits: torch.Tensor) -> None:
        logits_of = by_number[stream.number].logits
        assert position not in logits_of, f"position {position} was chosen twice"
        logits_of[position] = logits.clone()

    engine.on_logits = keep
    while not engine.is_idle:
        if watch is not None:
            watch(engine)
        engine.step()
    assert model.cache.num_free_blocks == num_free, "blocks were not given back"
    decoded = [recorder.decoded for recorder in recorders if recorder.decoded is not None]
    assert len(decoded) == len(requests), "a request did not finish"
    return decoded


def decode_alone(loaded: LoadedModel, requests: Sequence[GenerationRequest]) -> list[Decoded]:
    """Run requests one after another."""
    return [decode(loaded, [each])[0] for each in requests]


def prefill(model: Model, text: Int32Array, first_wanted: int, rows: int) -> Computed:
    """Compute a text as a prompt, ``rows`` at once; logits from position ``first_wanted`` on."""
    slot = Slot()
    model.cache.reserve(slot, len(text))
    logits = []
    try:
        for start in range(0, len(text), rows):
            chain = Forest.chain(text[start : start + rows])
            wanted = range(max(first_wanted - start, 0), len(chain))
            output = model.forward([SlotStep(slot, chain, wanted)])
            model.commit(output, [(slot, range(len(chain)))])
            logits.append(output.logits.clone())
        return Computed(torch.cat(logits), *model.cache.read(slot))
    finally:
        model.cache.release(slot)


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors hold the same bits: NaN equals itself, and -0 is not 0."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    first, second = (each.contiguous().view(torch.uint8).numpy() for each in (left, right))
    return bool(np.array_equal(first, second))
