"""Variants of normalisation and its placement."""

from zoo.variants.variant import Variant

_SIMPLE_RESULT = (
    "Xu et al. 2019: LayerNorm without scale and bias (LayerNorm-simple) is better than LayerNorm on four of their "
    "data sets, because both parameters favour overfitting. They remove the two together."
)


NORM_VARIANTS: tuple[Variant, ...] = (
    Variant(
        "no-input-norm",
        "normalisation",
        {"model.attention.input_norm": False},
        equation="x = x + Attention(x), then x = x + FFN(Norm(x)).",
        paper="Warner et al. 2024, section 2.1.1 (ModernBERT, in the first layer alone)",
        details=(
            "Switched off: the norm before self-attention. ModernBERT does so in its first layer, which reads an "
            "embedding that is normalised already: `model.layers.kinds.first.attention.input_norm=false`, with a "
            "kind of layers that stands first in `model.layers.pattern`.",
        ),
    ),
    Variant(
        "unit-offset",
        "normalisation",
        {"model.norm.unit_offset": True},
        needs={"model.norm.kind": "rmsnorm"},
        equation=(
            "y = x / sqrt(mean(x^2) + epsilon) * (1 + w), w initialised to 0, so that weight decay pulls the factor "
            "towards 1."
        ),
        paper="Gemma Team 2024 (Gemma)",
    ),
    Variant(
        "layernorm-1p",
        "normalisation",
        {"model.norm.kind": "layernorm", "model.norm.unit_offset": True},
        equation=(
            "y = (x - mean(x)) / sqrt(variance(x) + epsilon) * (1 + w) + bias, w initialised to 0, so that weight "
            "decay pulls the factor towards 1."
        ),
        paper="Parmar et al. 2024 (Nemotron-4)",
    ),
    Variant(
        "no-norm-scale",
        "normalisation",
        {"model.norm.scale": False},
        equation="y = (x - mean(x)) / sqrt(variance(x) + epsilon) + bias.",
        paper="a control; Xu et al. 2019 (LayerNorm-simple)",
        details=("Switched off: the factors scale [D] of every norm, so that each has only its bias.",),
        published=(_SIMPLE_RESULT,),
    ),
    Variant(
        "no-norm-bias",
        "normalisation",
        {"model.norm.bias": False},
        equation="y = (x - mean(x)) / sqrt(variance(x) + epsilon) * scale.",
        paper="a control; Xu et al. 2019",
        details=("Switched off: the bias [D] of every norm. RMSNorm has none anyway.",),
        published=(_SIMPLE_RESULT,),
    ),
    Variant(
        "ngpt",
        "placement",
        {
            "model.norm.placement": "interpolated",
            "model.norm.kind": "unit",
            "model.norm.scale": False,
            "model.attention.qk_norm": "unit",
            "model.ffn.hidden_scale": True,
            "model.head.logit_scale": True,
            "optimizer.constraint": "unit_norm",
        },
        needs={
            "model.position.kind": "rope",
            "model.ffn.kind": "swiglu",
            "model.attention.bias": False,
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
        },
        source="zoo.layers.interpolated_residual:InterpolatedBlock",
        equation=(
            "h = N(h + a_A (N(Attention(h)) - h)), then h = N(h + a_M (N(FFN(h)) - h)), with N(x) = x / |x|. Scores "
            "are sqrt(K) (s N(q)) . (s N(k)), hidden units (s_u u) SiLU(s_v v sqrt(D)), logits s_z (E_out h). The "
            "vectors [D] of all matrices have length 1 after every update."
        ),
        paper="Loshchilov et al. 2024",
        details=(
            "The seven fields are independent, and each has a page or a line in `zoo describe`. The paper trains with "
            "Adam, without weight decay and without warm-up (`optimizer.weight_decay=0 schedule.warmup_steps=0`), "
            "and draws initial values with the standard deviation 1 / sqrt(D) (`model.init.std`), of which only the "
            "directions are left.",
            "`optimizer.constraint` divides W_q, W_k, W_v, W_up and W_gate by the lengths of their columns, W_o and "
            "W_down by those of their rows, and tables by those of their rows, at the start and after every update, as "
            "the authors' code does. Of other kinds of layers it takes every matrix with a dimension of the model's "
            "width, the table of learned positions too; biases stay free.",
            "Where this differs from the authors' code: heads are normalised before RoPE instead of after it, which "
            "is the same as long as RoPE keeps lengths; h is not normalised once more before a step; u has no factor "
            "sqrt(D), as in the paper, which N(FFN(h)) does not see; matrices are float32. Key heads that several "
            "queries share have one s for all of them; OLMo-core learns one for queries and one for keys.",
        ),
        published=(
            "Loshchilov et al. 2024, 0.5B and 1B parameters, OpenWebText: the loss of a GPT with pre-norm is reached "
            "in 4 times fewer updates with rows of 1,024 tokens, and up to 20 times fewer with 8,192; an update takes "
            "longer.",
        ),
        synonyms=("normalized-transformer", "normalised-transformer", "hypersphere"),
    ),
    Variant(
        "zero-outputs",
        "placement",
        {"model.init.zero_outputs": True},
        equation="W_o = W_down = 0 at first, so that x + f(Norm(x)) = x.",
        paper="Zhang et al. 2019 (Fixup), section 3; nanochat's and modded-nanogpt's code",
    ),
    Variant(
        "residual-multiplier",
        "placement",
        {"model.residual_multiplier": 0.22},
        source="zoo.layers.block:Block",
        equation="x = x + r f(Norm(x)), with one number r = `residual_multiplier` for all sublayers f.",
        paper="Granite Team 2024 (Granite 3.0)",
        details=("r is a constant, found together with the other multipliers by a search at a small width.",),
    ),
    Variant(
        "no-residual",
        "placement",
        {"model.residual": False},
        equation="x = f(Norm(x)): the output of each sublayer without the residual x.",
        paper="a control",
        details=(
            "Switched off: the residual connections of all layers. Gradients reach the first layer only through all "
            "sublayers.",
        ),
        picture="architecture",
    ),
    Variant(
        "parallel-shared-norm",
        "placement",
        {"model.parallel": "shared_norm"},
        equation="x = x + Attention(Norm(x)) + FFN(Norm(x)), one norm for both.",
        paper="Wang & Komatsuzaki 2021 (GPT-J)",
        published=(
            "Chowdhery et al. 2022, section 2 (PaLM), which also has one norm for both: training is about 15 % "
            "faster; a small loss of quality at 8B parameters, none at 62B.",
        ),
        picture="architecture",
    ),
    Variant(
        "parallel",
        "placement",
        {"model.parallel": "own_norms"},
        equation="x = x + Attention(Norm_1(x)) + FFN(Norm_2(x)).",
        paper="Black et al. 2022, section 2.1 (GPT-NeoX-20B)",
        published=(
            "Chowdhery et al. 2022, section 2 (PaLM): training is about 15 % faster; a small loss of quality at 8B "
            "parameters, none at 62B.",
        ),
        picture="architecture",
    ),
)
