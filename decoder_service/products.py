"""Whether a row of a matrix product depends on the number of rows beside it, on this machine.

Every sum of the products here is exactly zero, so that what comes out is rounding alone and shows the order of
summation; with ordinary numbers a different order would change few elements of narrow types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch

WIDE_OUTPUTS: Final = 8192
DISTINCT_OUTPUTS: Final = 512  # the columns of wider products repeat: random numbers cost more than products


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """A linear layer's."""

    inputs: int
    outputs: int
    has_bias: bool = False

    @property
    def is_wide(self) -> bool:
        """Whether it is that of a large vocabulary's logits, which takes long to try."""
        return self.outputs >= WIDE_OUTPUTS

    def __str__(self) -> str:
        return f"{self.inputs}x{self.outputs}{' with bias' if self.has_bias else ''}"


@dataclass(frozen=True, slots=True)
class Product:
    """One shape of a matrix product, and the numbers of rows that give other bits."""

    shape: str
    num_counts: int  # of rows that were tried
    differing: list[int]

    @property
    def passed(self) -> bool:
        """Whether every number of rows gives the same bits."""
        return not self.differing


def linear_shapes(network: torch.nn.Module) -> list[Shape]:
    """The different shapes of a network's linear layers."""
    shapes = {
        Shape(module.in_features, module.out_features, module.bias is not None)
        for module in network.modules()
        if isinstance(module, torch.nn.Linear)
    }
    return sorted(shapes)


@torch.inference_mode()
def check_product(
    shape: Shape, dtype: torch.dtype, counts: Sequence[int], device: torch.device | None = None
) -> Product:
    """Compare rows at these counts with the same rows at the largest of them."""
    device = device or torch.device("cpu")
    most = max(counts)
    rows, weight = (each.to(device) for each in _cancelling(shape, most, dtype))
    bias = torch.zeros(shape.outputs, dtype=dtype, device=device) if shape.has_bias else None
    linear: Callable[..., torch.Tensor] = torch.nn.functional.linear
    reference = linear(rows[None, :most], weight, bias)[0]
    differing = [
        count
        for count in sorted(set(counts) - {most})
        if not torch.equal(linear(rows[None, :count], weight, bias)[0], reference[:count])
    ]
    return Product(str(shape), len(counts), differing)


def _cancelling(shape: Shape, num_rows: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows [num_rows, inputs] and a weight [outputs, inputs] whose products are all exactly zero."""
    inputs, outputs = shape.inputs, shape.outputs
    generator = torch.Generator().manual_seed(inputs * outputs)
    half = inputs // 2
    row_half = torch.randn(num_rows, half, generator=generator)
    weight_half = torch.randn(min(outputs, DISTINCT_OUTPUTS), half, generator=generator)
    place = torch.randperm(2 * half, generator=generator)
    rows = torch.cat([row_half, row_half], dim=1)[:, place]
    weight = torch.cat([weight_half, -weight_half], dim=1)[:, place]
    pad = (0, inputs - 2 * half)
    repeated = torch.arange(outputs) % DISTINCT_OUTPUTS
    return (
        torch.nn.functional.pad(rows, pad).to(dtype).contiguous(),
        torch.nn.functional.pad(weight, pad).to(dtype)[repeated],
    )
