"""Variants of positions."""

from zoo.config.kinds.position_kinds import CLIPPED_RESULT
from zoo.variants.variant import Variant

POSITION_VARIANTS: tuple[Variant, ...] = (
    Variant(
        "position-offset",
        "position",
        {"model.position.offset": 2},
        equation="x_t + P[2 + t]: no position uses the first two rows of the table.",
        paper="Liu et al. 2019 (RoBERTa's code)",
    ),
    Variant(
        "sinusoidal-half",
        "position",
        {"model.position.layout": "half"},
        source="zoo.layers.position.absolute:sinusoid",
        needs={"model.position.kind": "sinusoidal"},
        equation=(
            "PE[p, i] = sin(p / 10000^(2i/D)), PE[p, D/2 + i] = cos(p / 10000^(2i/D)): the sines in the first half, "
            "the cosines in the second."
        ),
        paper="Vaswani et al. 2017, section 3.5, in the authors' code (tensor2tensor)",
        picture="positions",
    ),
    Variant(
        "sinusoidal-endpoint",
        "position",
        {"model.position.endpoint": True},
        needs={"model.position.kind": "sinusoidal"},
        equation="PE[p, 2i] = sin(p / 10000^(i / (D/2 - 1))), PE[p, 2i+1] = cos(p / 10000^(i / (D/2 - 1))).",
        paper="Vaswani et al. 2017, in the authors' code (tensor2tensor); Ott et al. 2019 (fairseq)",
        picture="positions",
    ),
    Variant(
        "rope-interleaved",
        "position",
        {"model.position.layout": "interleaved"},
        source="zoo.layers.position.rope:rotate_pairs",
        needs={"model.position.kind": "rope"},
        details=(
            "Pair i is the dimensions 2i and 2i + 1 of a head, where `rope` takes i and i + K/2. The two differ by "
            "a permutation of the columns of W_q and W_k.",
        ),
        picture="pairs",
    ),
    Variant(
        "partial-rotary",
        "position",
        {"model.position.fraction": 0.5},
        needs={"model.position.kind": "rope"},
        equation=(
            "The first fraction * K dimensions of a head rotate by p * theta^(-2i / (fraction * K)), the rest do "
            "not: the whole spectrum of frequencies, over fewer pairs. In p-rope the lowest ones are left out "
            "instead."
        ),
        paper="Wang & Komatsuzaki 2021 (GPT-J)",
        published=(
            (
                "Khan et al. 2026, arXiv:2603.11611: rotating about a tenth of the dimensions converges like rotating "
                "all, over sizes, row lengths and data sets."
            ),
            "Karpathy 2026 (nanochat's experiment log): rotating the first quarter of each head is slightly worse.",
        ),
        picture="positions",
    ),
    Variant(
        "p-rope",
        "position",
        {"model.position.kept_frequencies": 0.75},
        needs={"model.position.kind": "rope"},
        equation=(
            "Pair i < p K / 2 of a head turns by position * theta^(-2i / K), p = `position.kept_frequencies`; the "
            "other pairs do not turn: the lowest of RoPE's frequencies are set to 0, the others are unchanged. In "
            "partial-rotary the whole spectrum, from 1 to about 1 / theta, is spread over fewer pairs instead, so "
            "that slow pairs remain."
        ),
        paper="Barbero et al. 2024",
        published=(
            (
                "Barbero et al. 2024, table 2, Gemma 2B trained from scratch: without the lowest frequencies the "
                "validation perplexity is as low as RoPE's, or lower."
            ),
            (
                "Karpathy 2026 (nanochat's experiment log): a related form, which rotates half of the dimensions of "
                "each head, is no improvement."
            ),
        ),
        picture="positions",
    ),
    Variant(
        "rope-linear",
        "position",
        {"model.position.scaling.kind": "linear"},
        source="zoo.layers.position.rope:linear_frequencies",
        needs={"model.position.kind": "rope", "model.position.scaling.factor": 4.0},
        published=(
            "Chen et al. 2023: LLaMA models reach rows of 32,768 tokens after at most 1,000 steps of fine-tuning.",
        ),
        picture="positions",
    ),
    Variant(
        "rope-dynamic",
        "position",
        {"model.position.scaling.kind": "dynamic"},
        source="zoo.layers.position.rope:dynamic_frequencies",
        needs={
            "model.position.kind": "rope",
            "model.position.scaling.factor": 4.0,
            "model.position.scaling.original_length": 256,
        },
        synonyms=("ntk",),
        picture="positions",
    ),
    Variant(
        "rope-yarn",
        "position",
        {"model.position.scaling.kind": "yarn"},
        source="zoo.layers.position.rope:yarn_frequencies",
        needs={
            "model.position.kind": "rope",
            "model.position.scaling.factor": 4.0,
            "model.position.scaling.original_length": 256,
        },
        published=(
            "Peng et al. 2023: LLaMA models are extended with a tenth of the tokens and 2.5 times fewer steps than "
            "earlier methods need.",
        ),
        synonyms=("yarn",),
        picture="positions",
    ),
    Variant(
        "rope-yarn-exact",
        "position",
        {"model.position.scaling.truncate": False},
        source="zoo.layers.position.rope:yarn_frequencies",
        needs={
            "model.position.kind": "rope",
            "model.position.scaling.kind": "yarn",
            "model.position.scaling.factor": 4.0,
            "model.position.scaling.original_length": 256,
        },
        equation=(
            "YaRN whose ramp over the pairs begins and ends where the rotations are exactly `high` and `low`: the two "
            "numbers of pairs, d ln(L / (2 pi r)) / (2 ln theta) for r rotations over L tokens, are not rounded to "
            "whole ones."
        ),
        paper="OpenAI 2025 (gpt-oss)",
        picture="positions",
    ),
    Variant(
        "rope-llama3",
        "position",
        {"model.position.scaling.kind": "llama3"},
        source="zoo.layers.position.rope:llama3_frequencies",
        needs={
            "model.position.kind": "rope",
            "model.position.scaling.factor": 4.0,
            "model.position.scaling.original_length": 256,
        },
        picture="positions",
    ),
    Variant(
        "longrope",
        "position",
        {"model.position.scaling.kind": "longrope"},
        source="zoo.layers.position.rope:longrope_frequencies",
        needs={
            "model.position.kind": "rope",
            "model.position.scaling.factor": 4.0,
            "model.position.scaling.original_length": 256,
        },
        details=(
            "Queries and keys are also multiplied by sqrt(1 + ln(factor) / ln(original_length)) each. Where a text "
            "grows past `original_length`, all its keys turn by other angles, so a cache cannot be kept.",
        ),
        picture="positions",
    ),
    Variant(
        "alibi-scaled",
        "position",
        {"model.position.scaled": True},
        needs={"model.position.kind": "alibi"},
        source="zoo.layers.position.relative:Alibi",
        equation="score_h(t, s) = (q . k - slope_h |t - s|) / sqrt(K): the penalty has the factor of the scores.",
        paper="Penedo et al. 2023 (Falcon-RW's code)",
    ),
    Variant(
        "relative-bias-per-layer",
        "position",
        {"model.position.shared": False},
        source="zoo.layers.position.relative:RelativeBias",
        needs={"model.position.kind": "relative_bias"},
        equation=(
            "score_h(t, s) + table_l[bucket(s - t), h], with a table [buckets, H] for each layer l; the buckets are "
            "those of relative-bias."
        ),
        paper="Chung et al. 2023 (umT5)",
    ),
    Variant(
        "shaw-keys",
        "position",
        {"model.position.relative_values": False},
        source="zoo.layers.position.relative:ShawPosition",
        needs={"model.position.kind": "shaw"},
        equation=(
            "score(t, s) = q_t . (k_s + a_d) * scale, d = clip(s - t, -k, k), with a table a [2k + 1, K] for each "
            "layer that all heads share; values get no vectors."
        ),
        paper="Shaw et al. 2018, eq. 4 and section 4.4",
        published=(CLIPPED_RESULT,),
    ),
)
