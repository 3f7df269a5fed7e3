"""Variants of positions."""

from zoo.variants.table.entry import LAYER, ROPE, WHOLE, choice, numpy_reference
from zoo.variants.variant import ReferenceTest, Variant

TABLE = "model.position.kind"
FREQUENCIES = numpy_reference("layers/test_position.py::test_scaled_rope_frequencies_match_their_formulas", 2e-5)
SINUSOID = numpy_reference("layers/test_position.py::test_sinusoids_are_added_to_the_embedding")


def scaled_rope(kind: str, source: str, systems: tuple[str, ...]) -> Variant:
    """Returns RoPE scaled to four times the length that it was trained with."""
    return choice(
        "model.position.scaling.kind",
        kind,
        "position",
        f"rope-{kind}",
        ROPE
        | {"model.position.scaling.factor": 4.0}
        | ({} if kind == "linear" else {"model.position.scaling.original_length": 256}),
        source=source,
        systems=systems,
        tests=(FREQUENCIES,),
        picture="positions",
    )


POSITION_VARIANTS: tuple[Variant, ...] = (
    choice(
        TABLE,
        "none",
        "position",
        "nope",
        paper="Haviv et al. 2022; Kazemnejad et al. 2023",
        equation=(
            "x_t = E[token_t]: in a decoder only the causal mask conveys order; an encoder is equivariant to "
            "permutations."
        ),
        tests=(WHOLE,),
        details=("Switched off: the table of positions and everything else that depends on positions.",),
        claims=("P1",),
    ),
    choice(
        TABLE,
        "learned",
        "position",
        source="zoo.layers.position.absolute:Learned",
        systems=("gpt1", "gpt2", "bert"),
        tests=(WHOLE,),
    ),
    choice(
        "model.position.offset",
        2,
        "position",
        "position-offset",
        paper="Liu et al. 2019 (RoBERTa's code)",
        equation="x_t + P[2 + t]: no position uses the first two rows of the table.",
        systems=("roberta",),
        tests=(WHOLE,),
    ),
    choice(
        TABLE,
        "sinusoidal",
        "position",
        source="zoo.layers.position.absolute:Sinusoidal",
        systems=("distilbert-sinusoidal", "transformer"),
        tests=(SINUSOID,),
        claims=("P4",),
        picture="positions",
    ),
    choice(
        "model.position.layout",
        "half",
        "position",
        "sinusoidal-half",
        {TABLE: "sinusoidal"},
        source="zoo.layers.position.absolute:sinusoid",
        systems=("transformer",),
        tests=(SINUSOID,),
        picture="positions",
        equation=(
            "PE[p, i] = sin(p / 10000^(2i/D)), PE[p, D/2 + i] = cos(p / 10000^(2i/D)): the sines in the first half,"
            " the cosines in the second."
        ),
        paper="Vaswani et al. 2017, section 3.5, in the authors' code (tensor2tensor)",
    ),
    choice(
        "model.position.endpoint",
        True,
        "position",
        "sinusoidal-endpoint",
        {TABLE: "sinusoidal"},
        paper="Vaswani et al. 2017, in the authors' code (tensor2tensor); Ott et al. 2019 (fairseq)",
        equation="PE[p, 2i] = sin(p / 10000^(i / (D/2 - 1))), PE[p, 2i+1] = cos(p / 10000^(i / (D/2 - 1))).",
        tests=(SINUSOID,),
        picture="positions",
    ),
    choice(
        TABLE,
        "rope",
        "position",
        source="zoo.layers.position.rope:Rope",
        systems=("llama", "mistral"),
        tests=(
            ReferenceTest(
                "complex numbers in float64",
                "tests/layers/test_position.py::test_rope_equals_complex_multiplication",
                1e-5,
            ),
        ),
        details=(
            "frequency_i = theta^(-2i/K), i = 0 .. K/2 - 1, with theta = 10,000 by default; pair i is the "
            "dimensions i and i + K/2 of a head. Its wavelength is 2 pi / frequency_i tokens.",
        ),
        claims=("P5", "P6", "P9", "P12"),
        picture="positions",
    ),
    choice(
        "model.position.layout",
        "interleaved",
        "position",
        "rope-interleaved",
        ROPE,
        source="zoo.layers.position.rope:rotate_pairs",
        systems=("gpt-j", "roformer"),
        tests=(WHOLE,),
        details=(
            "Pair i is the dimensions 2i and 2i + 1 of a head, where `rope` takes i and i + K/2. The two differ by "
            "a permutation of the columns of W_q and W_k.",
        ),
        picture="pairs",
    ),
    choice(
        "model.position.fraction",
        0.5,
        "position",
        "partial-rotary",
        ROPE,
        paper="Wang & Komatsuzaki 2021 (GPT-J)",
        equation=(
            "The first fraction * K dimensions of a head rotate by p * theta^(-2i / (fraction * K)), the rest do not: "
            "the whole spectrum of frequencies, over fewer pairs. In p-rope the lowest ones are left out instead."
        ),
        systems=("gpt-neox",),
        tests=(WHOLE,),
        picture="positions",
    ),
    choice(
        "model.position.kept_frequencies",
        0.75,
        "position",
        "p-rope",
        ROPE,
        equation=(
            "Pair i < p K / 2 of a head turns by position * theta^(-2i / K), p = `position.kept_frequencies`; the "
            "other pairs do not turn: the lowest of RoPE's frequencies are set to 0, the others are unchanged. "
            "In partial-rotary the whole spectrum, "
            "from 1 to about 1 / theta, is spread over fewer pairs instead, so that slow pairs remain."
        ),
        paper="Barbero et al. 2024",
        tests=(LAYER,),
        picture="positions",
    ),
    scaled_rope("linear", "zoo.layers.position.rope:linear_frequencies", ("llama-linear",)),
    scaled_rope("dynamic", "zoo.layers.position.rope:dynamic_frequencies", ("llama-dynamic",)),
    scaled_rope("yarn", "zoo.layers.position.rope:yarn_frequencies", ("llama-yarn",)),
    scaled_rope("llama3", "zoo.layers.position.rope:llama3_frequencies", ("llama-3.1",)),
    choice(
        TABLE,
        "alibi",
        "position",
        source="zoo.layers.position.relative:Alibi",
        systems=("bloom", "mpt-6-heads"),
        tests=(LAYER,),
        details=(
            "slope_h = 2^(-8 (h + 1) / H) for H a power of two: 1/2, 1/4 ... 1/256 for 8 heads. For another H, with"
            " n the next lower power of two: the n slopes of n heads, then the first, third, fifth ... of the "
            "slopes of 2 n heads.",
        ),
        picture="positions",
    ),
    choice(
        TABLE,
        "relative_bias",
        "position",
        "relative-bias",
        source="zoo.layers.position.relative:RelativeBias",
        systems=("t5", "t5-1.1"),
        tests=(WHOLE,),
        details=(
            "With n buckets and d = t - s >= 0, in a decoder: bucket = d for d < n/2; beyond that n/2 + floor(n/2 *"
            " log(d / (n/2)) / log(max_distance / (n/2))), at most n - 1. In an encoder both directions have n/2 "
            "buckets by the same rule, those of keys after the query behind the others. T5 has n = 32 and "
            "max_distance = 128.",
        ),
        claims=("P8",),
        picture="positions",
    ),
    choice(
        "model.position.shared",
        False,
        "position",
        "relative-bias-per-layer",
        {TABLE: "relative_bias"},
        source="zoo.layers.position.relative:RelativeBias",
        paper="Chung et al. 2023 (umT5)",
        systems=("umt5",),
        tests=(LAYER,),
        equation=(
            "score_h(t, s) + table_l[bucket(s - t), h], with a table [buckets, H] for each layer l; the buckets are"
            " those of relative-bias."
        ),
    ),
    choice(
        TABLE,
        "shaw",
        "position",
        source="zoo.layers.position.relative:ShawPosition",
        tests=(LAYER,),
        picture="positions",
    ),
    choice(
        "model.position.relative_values",
        False,
        "position",
        "shaw-keys",
        {TABLE: "shaw"},
        source="zoo.layers.position.relative:ShawPosition",
        systems=("shaw-keys",),
        tests=(LAYER,),
        equation=(
            "score(t, s) = q_t . (k_s + a_d) * scale, d = clip(s - t, -k, k), with a table a [2k + 1, K] for each "
            "layer that all heads share; values get no vectors."
        ),
        paper="Shaw et al. 2018, eq. 4 and section 4.4",
    ),
)
