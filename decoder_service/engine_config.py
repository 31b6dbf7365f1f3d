"""How much a step may do."""

from __future__ import annotations

from dataclasses import dataclass

from decoder_service.step_cost import StepCost


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Bounds of a step, and what it costs."""

    max_streams: int  # requests that run at once
    prefill_rows: int  # of a prompt in one step
    draft_nodes: int  # in one step, all requests together
    min_probability: float  # of a draft node's path
    cost: StepCost | None = None  # None: time does not count
    reuse_prefixes: bool = False  # requests whose texts begin alike share keys and values
