"""Whether a row of a matrix product depends on the number of rows beside it, on this machine.

Every sum of the products here is exactly zero, so that what comes out is rounding alone and shows the order of
summation; with ordinary numbers a different order would change few elements of narrow types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from decoder_service.model import Model

NUM_REFERENCE_ROWS = 48


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


def check_products(model: Model) -> list[Product]:
    """Try each shape of the model's linear layers with every number of rows that steps have."""
    counts = sorted({model.num_rows_for(nodes) for nodes in range(1, model.options.max_rows - 3)})
    shapes = {
        (module.in_features, module.out_features)
        for module in model.network.modules()
        if isinstance(module, torch.nn.Linear)
    }
    few = [count for count in counts if count <= 17 or count % 16 == 0]
    return [
        check_product(inputs, outputs, model.options.dtype, counts if outputs < 8192 else few)
        for inputs, outputs in sorted(shapes)
    ]


def check_product(inputs: int, outputs: int, dtype: torch.dtype, counts: Sequence[int]) -> Product:
    """Compare rows at these counts with the same rows among NUM_REFERENCE_ROWS."""
    rows, weight = _cancelling(inputs, outputs, max(*counts, NUM_REFERENCE_ROWS), dtype)
    linear: Callable[..., torch.Tensor] = torch.nn.functional.linear
    reference = linear(rows[None, :NUM_REFERENCE_ROWS], weight)[0]
    differing = []
    for count in counts:
        compared = min(count, NUM_REFERENCE_ROWS)
        if not torch.equal(linear(rows[None, :count], weight)[0, :compared], reference[:compared]):
            differing.append(count)
    return Product(f"{inputs}x{outputs}", len(counts), differing)


def _cancelling(
    inputs: int, outputs: int, num_rows: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows [num_rows, inputs] and a weight [outputs, inputs] whose products are all exactly zero."""
    generator = torch.Generator().manual_seed(inputs * outputs)
    half = inputs // 2
    row_half = torch.randn(num_rows, half, generator=generator)
    weight_half = torch.randn(outputs, half, generator=generator)
    place = torch.randperm(2 * half, generator=generator)
    rows = torch.cat([row_half, row_half], dim=1)[:, place]
    weight = torch.cat([weight_half, -weight_half], dim=1)[:, place]
    pad = (0, inputs - 2 * half)
    return (
        torch.nn.functional.pad(rows, pad).to(dtype).contiguous(),
        torch.nn.functional.pad(weight, pad).to(dtype).contiguous(),
    )
