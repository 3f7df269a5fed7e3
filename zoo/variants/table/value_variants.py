"""Variants of the values that attention reads."""

from zoo.variants.table.entry import WHOLE, choice
from zoo.variants.variant import Variant

VALUE_VARIANTS: tuple[Variant, ...] = (
    choice(
        "model.attention.kind",
        "value_residual",
        "attention",
        "value-residual",
        source="zoo.layers.attention.value_mixing:ValueResidualAttention",
        tests=(WHOLE,),
    ),
    choice(
        "model.attention.value_mix_learned",
        True,
        "attention",
        "learned-value-residual",
        {"model.attention.kind": "value_residual"},
        equation=(
            "v = (1 - m) x W_v + m v_1, v_1 the values of the first layer, with a learned number m of each layer that "
            "begins at 1/2."
        ),
        paper="Zhou et al. 2024, section 3; modded-nanogpt's code",
        tests=(WHOLE,),
    ),
    choice(
        "model.attention.kind",
        "value_embedding",
        "attention",
        "value-embedding",
        source="zoo.layers.attention.value_mixing:ValueEmbeddingAttention",
        tests=(WHOLE,),
    ),
)
