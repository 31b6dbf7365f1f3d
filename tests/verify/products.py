"""Every number of rows that steps have, for every shape of a model's matrix products."""

from __future__ import annotations

from decoder_service.model import Model
from decoder_service.products import Product, check_product, linear_shapes


def check_products(model: Model) -> list[Product]:
    """Try each shape of the model's linear layers with every number of rows that steps have."""
    counts = sorted({model.num_rows_for(nodes) for nodes in range(1, model.options.max_rows - 3)})
    few = [count for count in counts if count <= 17 or count % 16 == 0]
    return [
        check_product(shape, model.options.dtype, few if shape.is_wide else counts)
        for shape in linear_shapes(model.network)
    ]
