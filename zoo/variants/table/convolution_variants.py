"""Variants of short convolutions over the tokens."""

from zoo.variants.table.entry import choice, numpy_reference
from zoo.variants.variant import Variant

BLOCK = numpy_reference("layers/test_short_convolution.py::test_block_matches_its_equation_in_packed_and_padded_rows")
KIND = "model.convolution.kind"

CONVOLUTION_VARIANTS: tuple[Variant, ...] = (
    choice(KIND, "canon", "convolution", source="zoo.layers.short_convolution:CanonConvolution", tests=(BLOCK,)),
    choice(KIND, "primer", "convolution", source="zoo.layers.short_convolution:PrimerConvolution", tests=(BLOCK,)),
    choice(
        KIND, "kv_shift", "convolution", "kv-shift", source="zoo.layers.short_convolution:KeyValueShift", tests=(BLOCK,)
    ),
    choice(
        KIND,
        "token_shift",
        "convolution",
        "token-shift",
        source="zoo.layers.short_convolution:TokenShift",
        tests=(BLOCK,),
    ),
)
