"""Rules for which results the backward pass keeps and which it computes again (`model.remat`)."""

from typing import Any

import jax

from zoo.layers.attention.kernels.fused import FUSED_OUTPUT


def keep_products(primitive: Any, *_: Any, **parameters: Any) -> bool:
    """Returns whether the result of an operation is kept for the backward pass: outputs of linear
    maps, and what a fused attention keeps itself, but no scores of all pairs of tokens.

    Products with batch dimensions are those of attention.
    """
    if primitive.name == "dot_general":
        _, (batch, _) = parameters["dimension_numbers"]
        return not batch
    return "dot_product_attention" in primitive.name or parameters.get("name") == FUSED_OUTPUT


REMAT_POLICIES = {"full": None, "dots": jax.checkpoint_policies.dots_saveable, "products": keep_products}
