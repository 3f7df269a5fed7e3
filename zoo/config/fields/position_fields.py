"""Fields of positions."""

from zoo.config.field import AUTO, Field
from zoo.config.kinds import POSITION_KINDS

POSITION_FIELDS: tuple[Field, ...] = (
    Field("model.position.kind", "learned", str, "position encoding", POSITION_KINDS.choices),
    Field(
        "model.position.offset",
        0,
        int,
        "number of the first position; a learned table has this many extra rows (RoBERTa: 2)",
        minimum=0,
        when=POSITION_KINDS.when("embedded"),
    ),
    Field(
        "model.position.layout",
        AUTO,
        str,
        "which dimensions form a pair",
        {
            "half": "dimensions k and k + K/2 (GPT-NeoX, LLaMA in Hugging Face)",
            "interleaved": "dimensions 2k and 2k + 1, neighbours (Su et al. 2021; Vaswani et al. 2017)",
        },
        auto="half for rope, interleaved for sinusoidal",
        when=POSITION_KINDS.when("pairs"),
    ),
    *POSITION_KINDS.fields,
)
