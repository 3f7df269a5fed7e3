"""Variants of normalisation and its placement."""

from zoo.variants.table.entry import WHOLE, choice, numpy_reference
from zoo.variants.variant import ReferenceTest, Variant

BLOCK = numpy_reference("layers/test_block.py::test_block_matches_its_equation")
NORM = numpy_reference("layers/test_norm.py::test_norm_matches_its_equation")
TORCH_BLOCK = ReferenceTest(
    "torch.nn.TransformerEncoderLayer",
    "tests/parity/parts/test_torch_blocks.py::test_blocks_match_torch_encoder_layers",
    1e-5,
)
TORCH_NORM = ReferenceTest(
    "torch.nn.LayerNorm and RMSNorm", "tests/parity/parts/test_torch_blocks.py::test_norms_match_torch", 1e-5
)


NORM_VARIANTS: tuple[Variant, ...] = (
    choice(
        "model.norm.kind",
        "layernorm",
        "normalisation",
        source="zoo.layers.norm:LayerNorm",
        systems=("gpt2", "bert"),
        tests=(NORM, TORCH_NORM),
    ),
    choice(
        "model.norm.kind",
        "rmsnorm",
        "normalisation",
        source="zoo.layers.norm:RMSNorm",
        systems=("llama", "t5"),
        tests=(NORM, TORCH_NORM),
    ),
    choice("model.norm.kind", "centering", "normalisation", source="zoo.layers.norm:CenteringNorm", tests=(NORM,)),
    choice(
        "model.norm.kind", "dyt", "normalisation", "dynamic-tanh", source="zoo.layers.norm:DynamicTanh", tests=(NORM,)
    ),
    choice(
        "model.norm.kind",
        "batchnorm",
        "normalisation",
        source="zoo.layers.norm:BatchNorm",
        tests=(numpy_reference("layers/test_norm.py::test_batch_norm_in_training_is_algorithm_1_over_filled_slots"),),
    ),
    choice(
        "model.norm.kind",
        "none",
        "normalisation",
        "no-norm",
        source="zoo.layers.norm:NoNorm",
        paper="a control",
        tests=(numpy_reference("layers/test_block.py::test_block_without_norms_matches_its_equation"),),
        details=("Switched off: all norms, also the last one before the head.",),
    ),
    choice(
        "model.attention.input_norm",
        False,
        "normalisation",
        "no-input-norm",
        equation="x = x + Attention(x), then x = x + FFN(Norm(x)).",
        paper="Warner et al. 2024, section 2.1.1 (ModernBERT, in the first layer alone)",
        systems=("modernbert",),
        tests=(numpy_reference("layers/test_block.py::test_attention_without_input_norm_matches_its_equation"),),
        details=(
            "Switched off: the norm before self-attention. ModernBERT does so in its first layer, which reads an "
            "embedding that is normalised already: `model.layers.kinds.first.attention.input_norm=false`, with a kind "
            "of layers that stands first in `model.layers.pattern`.",
        ),
    ),
    choice(
        "model.norm.unit_offset",
        True,
        "normalisation",
        "unit-offset",
        {"model.norm.kind": "rmsnorm"},
        equation=(
            "y = x / sqrt(mean(x^2) + epsilon) * (1 + w), w initialised to 0, so that weight decay pulls the factor "
            "towards 1."
        ),
        paper="Gemma Team 2024 (Gemma)",
        systems=("gemma", "gemma2"),
        tests=(WHOLE,),
    ),
    choice(
        "model.norm.scale",
        False,
        "normalisation",
        "no-norm-scale",
        equation="y = (x - mean(x)) / sqrt(variance(x) + epsilon) + bias.",
        paper="a control; Xu et al. 2019 (LayerNorm-simple)",
        tests=(numpy_reference("layers/test_norm.py::test_norm_without_scale_and_bias_uses_1_and_0", 1e-7),),
        details=("Switched off: the factors scale [D] of every norm, so that each has only its bias.",),
    ),
    choice(
        "model.norm.bias",
        False,
        "normalisation",
        "no-norm-bias",
        equation="y = (x - mean(x)) / sqrt(variance(x) + epsilon) * scale.",
        paper="a control; Xu et al. 2019",
        tests=(numpy_reference("layers/test_norm.py::test_norm_without_scale_and_bias_uses_1_and_0", 1e-7),),
        details=("Switched off: the bias [D] of every norm. RMSNorm has none anyway.",),
    ),
    choice(
        "model.norm.placement",
        "pre",
        "placement",
        source="zoo.layers.block:PreNormBlock",
        systems=("gpt2", "llama"),
        tests=(BLOCK, TORCH_BLOCK),
        details=(
            "The stream itself is never normalised: after the last of L layers it is x_0 plus the sum of all sublayer "
            "outputs, and one norm stands before the head.",
        ),
    ),
    choice(
        "model.norm.placement",
        "post",
        "placement",
        source="zoo.layers.block:PostNormBlock",
        systems=("gpt1", "bert"),
        tests=(BLOCK, TORCH_BLOCK),
        details=(
            "The norm is on the path of the residual stream, so that a gradient passes 2 L norms on its way to the "
            "embedding.",
        ),
        picture="architecture",
    ),
    choice(
        "model.norm.placement",
        "sandwich",
        "placement",
        source="zoo.layers.block:SandwichBlock",
        systems=("gemma2", "gemma3"),
        tests=(BLOCK,),
        picture="architecture",
    ),
    choice(
        "model.norm.placement",
        "reordered",
        "placement",
        source="zoo.layers.block:ReorderedBlock",
        systems=("olmo2",),
        tests=(BLOCK,),
        picture="architecture",
    ),
    *(
        choice("model.norm.placement", name, "placement", page, source=f"zoo.layers.block:{block}", tests=(BLOCK,))
        for name, page, block in (
            ("pre_scaled", "layernorm-scaling", "PreScaledBlock"),
            ("layerscale", "layerscale", "LayerScaleBlock"),
            ("x0_shortcut", "x0-shortcut", "ShortcutBlock"),
        )
    ),
    choice(
        "model.norm.placement",
        "deepnorm",
        "placement",
        source="zoo.layers.block:DeepNormBlock",
        tests=(numpy_reference("layers/test_block.py::test_deepnorm_weights_the_stream_and_scales_initial_values"),),
        picture="architecture",
    ),
    choice(
        "model.init.zero_outputs",
        True,
        "placement",
        "zero-outputs",
        paper="Zhang et al. 2019 (Fixup), section 3; nanochat's and modded-nanogpt's code",
        equation="W_o = W_down = 0 at first, so that x + f(Norm(x)) = x.",
        tests=(numpy_reference("layers/test_block.py::test_block_initialised_as_the_identity_has_gradients", 0.0),),
    ),
    choice(
        "model.residual",
        False,
        "placement",
        "no-residual",
        paper="a control",
        equation="x = f(Norm(x)): the output of each sublayer without the residual x.",
        tests=(BLOCK,),
        details=(
            "Switched off: the residual connections of all layers. Gradients reach the first layer only through all"
            " sublayers.",
        ),
        picture="architecture",
    ),
    choice(
        "model.parallel",
        "shared_norm",
        "placement",
        "parallel-shared-norm",
        paper="Wang & Komatsuzaki 2021 (GPT-J)",
        equation="x = x + Attention(Norm(x)) + FFN(Norm(x)), one norm for both.",
        systems=("gpt-j",),
        tests=(WHOLE,),
        picture="architecture",
    ),
    choice(
        "model.parallel",
        "own_norms",
        "placement",
        "parallel",
        paper="Black et al. 2022, section 2.1 (GPT-NeoX-20B)",
        equation="x = x + Attention(Norm_1(x)) + FFN(Norm_2(x)).",
        systems=("gpt-neox",),
        tests=(WHOLE,),
        picture="architecture",
    ),
)
