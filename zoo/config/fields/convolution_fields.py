"""Fields of short convolutions over the tokens."""

from zoo.config.field import AUTO, Field
from zoo.config.kinds import CONVOLUTION_KINDS

CONVOLUTION_FIELDS: tuple[Field, ...] = (
    Field(
        "model.convolution.kind",
        "none",
        str,
        "short causal convolution over the tokens, inside every block",
        CONVOLUTION_KINDS.choices,
        added=True,
    ),
    Field(
        "model.convolution.width",
        AUTO,
        int,
        "number of tokens that the convolution reads, the token itself included",
        minimum=2,
        maximum=256,
        auto="4 for canon, 3 for primer",
        when=CONVOLUTION_KINDS.when("width"),
        added=True,
    ),
    *CONVOLUTION_KINDS.fields,
)
