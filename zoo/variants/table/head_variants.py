"""Variants of what heads do with scores, and with what they have read."""

from zoo.variants.table.entry import LAYER, ROPE, WHOLE, choice
from zoo.variants.variant import ReferenceTest, Variant

SWIN = ReferenceTest(
    "Swinv2SelfAttention of transformers",
    "tests/parity/parts/test_cosine.py::test_cosine_attention_matches_swin_v2",
    5e-5,
)
QWEN3_NEXT = ReferenceTest(
    "Qwen3NextAttention of transformers",
    "tests/parity/parts/test_output_gate.py::test_elementwise_output_gate_matches_qwen3_next",
    1e-5,
)
ZERO_KEY = ReferenceTest(
    "MultiheadAttention(add_zero_attn=True) of torch.nn",
    "tests/parity/parts/test_softmax_plus_one.py::test_softmax_plus_one_equals_an_additional_zero_key",
    1e-5,
)
DEEPSEEK = ReferenceTest(
    "DeepseekV3Attention of transformers",
    "tests/parity/parts/test_latent.py::test_latent_attention_matches_deepseek_v3",
    1e-5,
)

HEAD_VARIANTS: tuple[Variant, ...] = (
    choice(
        "model.attention.qk_norm",
        "cosine",
        "attention",
        "cosine",
        source="zoo.layers.attention.head_options:CosineNorm",
        tests=(LAYER, SWIN),
    ),
    choice(
        "model.attention.output_norm",
        True,
        "attention",
        "output-norm",
        source="zoo.layers.attention.head_options:OutputNorm",
        tests=(LAYER,),
    ),
    choice(
        "model.attention.gate",
        "elementwise",
        "attention",
        "output-gate",
        source="zoo.layers.attention.head_options:OutputGate",
        paper="Qiu et al. 2025; Qwen Team 2025 (Qwen3-Next)",
        tests=(LAYER, QWEN3_NEXT),
    ),
    choice(
        "model.attention.gate",
        "head",
        "attention",
        "head-gate",
        equation=(
            "y = concat_h(a_h * sigmoid(x w_h)) W_o, a_h what head h has read and w_h a learned vector: one gate for "
            "each head, from the layer's input x."
        ),
        paper="Qiu et al. 2025",
        tests=(LAYER,),
    ),
    choice(
        "model.attention.gate_input",
        "attended",
        "attention",
        "attended-gate",
        {"model.attention.gate": "elementwise"},
        equation=(
            "y = (a * sigmoid(a W_g)) W_o, a what all heads have read, side by side: the gates are computed from the "
            "values that they gate."
        ),
        paper="a control; cf. Qiu et al. 2025",
        tests=(LAYER,),
    ),
    choice(
        "model.attention.gate_input",
        "x",
        "attention",
        "input-gate",
        {"model.attention.gate": "elementwise"},
        equation=(
            "y = (a * sigmoid(x W_g)) W_o, a what all heads have read, side by side: gates from the layer's input x, "
            "as in output-gate."
        ),
        paper="Qiu et al. 2025",
        tests=(LAYER,),
    ),
    choice(
        "model.attention.exclusive",
        True,
        "attention",
        "exclusive",
        equation=(
            "y_h = a_h - (a_h . v) v / |v|^2, a_h what head h has read and v the value of the token itself: the part "
            "of a head's output along the token's own value is removed."
        ),
        paper="Zhai 2026 (XSA)",
        tests=(LAYER,),
    ),
    choice(
        "model.attention.ssmax",
        0.4,
        "attention",
        "ssmax",
        source="zoo.layers.attention.head_options:LengthFactor",
        tests=(LAYER,),
    ),
    choice(
        "model.attention.kind",
        "softmax_plus_one",
        "attention",
        "softmax-plus-one",
        source="zoo.layers.attention.sigmoid_attention:SoftmaxPlusOneAttention",
        tests=(LAYER, ZERO_KEY),
    ),
    choice(
        "model.attention.kind",
        "sigmoid",
        "attention",
        "sigmoid-attention",
        source="zoo.layers.attention.sigmoid_attention:SigmoidAttention",
        tests=(LAYER,),
    ),
    choice(
        "model.attention.kind",
        "forgetting",
        "attention",
        source="zoo.layers.attention.forgetting_attention:ForgettingAttention",
        tests=(LAYER,),
    ),
    choice(
        "model.attention.kind",
        "differential",
        "attention",
        source="zoo.layers.attention.differential_attention:DifferentialAttention",
        systems=("diffllama",),
        tests=(LAYER, WHOLE),
    ),
    choice(
        "model.attention.lambda_init",
        0.8,
        "attention",
        "constant-lambda",
        {"model.attention.kind": "differential"},
        equation=(
            "lambda_0 = 0.8 in every layer, in place of 0.8 - 0.6 exp(-0.3 l): how much of the second softmax of a "
            "pair of heads is subtracted at first."
        ),
        paper="Ye et al. 2024, section 3.8",
        tests=(LAYER,),
    ),
    choice(
        "model.attention.kind",
        "latent",
        "attention",
        more=ROPE,
        source="zoo.layers.attention.latent_attention:LatentAttention",
        tests=(LAYER, WHOLE, DEEPSEEK),
        details=(
            "A cache holds r + R numbers for each token and layer, multi-head attention 2 H K. With the sizes of "
            "DeepSeek-V2 (128 heads of 128, r = 512, R = 64) these are 576 and 32,768: as few as of grouped-query "
            "attention with 2.25 groups. The number of parameters and the time of training depend on r: with r = 4 K "
            "the matrices W_k and W_v have 4 H K^2 elements each instead of D H K.",
        ),
        picture="heads",
    ),
    choice(
        "model.attention.query_latent_dim",
        128,
        "attention",
        "latent-queries",
        {"model.attention.kind": "latent"} | ROPE,
        equation=(
            "Latent attention with (q_h; q'_h) = Norm(x W_q) W'_h: matrices [D, r'] and [r', H (K + R)] in place of "
            "one, r' = `attention.query_latent_dim`, R = `attention.rotary_dim`. Fewer parameters and activations; the "
            "cache stays the same."
        ),
        paper="DeepSeek-AI 2024 (DeepSeek-V2), section 2.1.2, eq. 12 and 13",
        tests=(LAYER, DEEPSEEK),
    ),
)
