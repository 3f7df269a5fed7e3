"""Variants of attention."""

from zoo.layers.attention import favor, forgetting_attention, head_options, other_weights, softmax_attention
from zoo.variants.table.entry import LAYER, WHOLE, choice, numpy_reference
from zoo.variants.variant import ReferenceTest, Variant

SINKS = ReferenceTest(
    "GptOssAttention of transformers", "tests/parity/test_sinks.py::test_attention_with_sinks_is_gpt_oss_s", 1e-5
)
SWIN = ReferenceTest(
    "Swinv2SelfAttention of transformers", "tests/parity/test_cosine.py::test_cosine_attention_is_swin_v2_s", 1e-5
)
QWEN3_NEXT = ReferenceTest(
    "Qwen3NextAttention of transformers",
    "tests/parity/test_output_gate.py::test_the_elementwise_gate_is_qwen3_next_s",
    1e-5,
)
ZERO_KEY = ReferenceTest(
    "MultiheadAttention(add_zero_attn=True) of torch.nn",
    "tests/parity/test_softmax_plus_one.py::test_softmax_plus_one_is_a_key_of_zeros",
    1e-5,
)
FAVOR = ReferenceTest(
    "FastAttention of performer-pytorch", "tests/parity/test_performer.py::test_both_directions", 1e-5
)


ATTENTION_VARIANTS: tuple[Variant, ...] = (
    choice(
        "model.attention.kind",
        "softmax",
        "attention",
        "multi-head",
        source=softmax_attention.SoftmaxAttention,
        systems=("gpt2",),
        tests=(LAYER,),
        details=("A cache holds k and v of every token: 2 H K numbers in each layer, 2 G K with G shared heads.",),
        claims=("A7", "A8"),
        picture="heads",
    ),
    Variant(
        "grouped-query",
        "attention",
        {"model.attention.num_kv_heads": 4},
        paper="Ainslie et al. 2023",
        equation=(
            "out_h = softmax(scale * q_h k_g^T) v_g, g = floor(h G / H): H / G query heads share a key and value head."
        ),
        systems=("llama-grouped",),
        tests=(LAYER,),
        details=(
            "A cache holds 2 G K numbers for each token and layer, H / G times fewer than the 2 H K of multi-head "
            "attention. LLaMA 2 70B, with 80 layers, H = 64, G = 8 and K = 128, keeps 320 KiB for a token in "
            "bfloat16; without sharing it would be 2.5 MiB.",
        ),
        claims=("A2",),
        picture="heads",
    ),
    Variant(
        "multi-query",
        "attention",
        {"model.attention.num_kv_heads": 1},
        paper="Shazeer 2019",
        equation="out_h = softmax(scale * q_h k^T) v: all H query heads share one key and value head, G = 1.",
        systems=("llama-multi-query",),
        tests=(LAYER,),
        details=(
            "A cache holds 2 K numbers for each token and layer, H times fewer than the 2 H K of multi-head attention.",
        ),
        claims=("A2",),
        picture="heads",
    ),
    Variant(
        "shared-queries",
        "attention",
        {"model.attention.num_query_heads": 2},
        paper="a control; cf. Shazeer 2019",
        equation=(
            "out_h = softmax(scale * q_r k_g^T) v_g, r = floor(h Q / H): groups of H / Q heads share a query, not a "
            "key and value."
        ),
        tests=(LAYER,),
        details=(
            "A cache is as large as without sharing, 2 G K numbers for each token and layer: queries are not kept.",
        ),
        picture="heads",
    ),
    Variant(
        "grouped-cross-attention",
        "attention",
        {"model.attention.cross_kv_heads": 4},
        paper="Ainslie et al. 2023",
        equation=(
            "In cross-attention out_h = softmax(scale * q_h k_g^T) v_g, g = floor(h C / H), with C key and value "
            "heads of its own."
        ),
        baseline="encoder_decoder",
        tests=(numpy_reference("models/test_encoder_decoder.py::test_logits_are_the_reference_s", 2e-5),),
        picture="heads",
    ),
    Variant(
        "single-head",
        "attention",
        {"model.attention.num_heads": 1},
        paper="a control; Vaswani et al. 2017, table 3, row A",
        equation="out = softmax(scale * q k^T) v with H = 1 and one head as wide as the model.",
        tests=(WHOLE,),
        picture="heads",
    ),
    choice(
        "model.attention.qk_norm",
        "head",
        "attention",
        "qk-norm",
        source=head_options.HeadNorm,
        systems=("qwen3",),
        tests=(LAYER,),
        picture="architecture",
        equation=(
            "q_h = q_h / sqrt(mean(q_h^2) + epsilon) * scale, and the same for k, before rotation: the mean over "
            "the K values of a head, one scale [K] for all heads. It is an RMSNorm whatever `norm.kind` is."
        ),
        paper="Henry et al. 2020; Dehghani et al. 2023; Qwen 3",
    ),
    choice(
        "model.attention.qk_norm",
        "full",
        "attention",
        "qk-norm-full",
        source=head_options.HeadNorm,
        paper="OLMo Team 2025 (OLMo 2)",
        systems=("olmo2",),
        tests=(LAYER,),
        equation=(
            "q = q / sqrt(mean(q^2) + epsilon) * scale, and the same for k, before rotation: the mean over the H K "
            "values of all heads, a scale [H K]. It is an RMSNorm whatever `norm.kind` is."
        ),
    ),
    choice(
        "model.attention.softcap",
        50.0,
        "attention",
        "attention-softcap",
        paper="Gemma Team 2024 (Gemma 2), section 2",
        equation="score = c * tanh(scale * q . k / c), before masking and softmax.",
        systems=("gemma2",),
        tests=(LAYER,),
    ),
    choice(
        "model.attention.sinks",
        True,
        "attention",
        "sinks",
        paper="OpenAI 2025 (gpt-oss); Xiao et al. 2023",
        equation="p_s = exp(score_s) / (exp(b_h) + sum_r exp(score_r)), b_h learned per head.",
        tests=(LAYER, SINKS),
    ),
    choice(
        "model.attention.scale",
        1.0,
        "attention",
        "unscaled",
        paper="Raffel et al. 2020 (T5); Vaswani et al. 2017, section 3.2.1",
        equation="score = q . k, without 1 / sqrt(K).",
        systems=("t5", "gpt2-unscaled-relu"),
        tests=(WHOLE,),
        details=("Switched off: the factor 1 / sqrt(K). T5 makes the initial W_q smaller by it instead.",),
    ),
    choice(
        "model.attention.bias",
        False,
        "attention",
        "no-attention-bias",
        equation="q = x W_q without a bias; likewise for k, v and the output.",
        paper="Touvron et al. 2023 (LLaMA); Raffel et al. 2020 (T5)",
        systems=("llama", "t5"),
        tests=(LAYER,),
        details=("Switched off: the biases of W_q, W_k, W_v and W_o.",),
    ),
    choice(
        "model.attention.qk_norm", "cosine", "attention", "cosine", source=head_options.CosineNorm, tests=(LAYER, SWIN)
    ),
    choice(
        "model.attention.gate",
        "elementwise",
        "attention",
        "output-gate",
        source=head_options.OutputGate,
        paper="Qiu et al. 2025; Qwen Team 2025 (Qwen3-Next)",
        tests=(LAYER, QWEN3_NEXT),
    ),
    choice(
        "model.attention.gate",
        "head",
        "attention",
        "head-gate",
        equation="y = concat_h(a_h * sigmoid(x w_h)) W_o: one gate for each head, from the layer's input.",
        paper="Qiu et al. 2025",
        tests=(LAYER,),
    ),
    choice(
        "model.attention.gate_input",
        "attended",
        "attention",
        "attended-gate",
        {"model.attention.gate": "elementwise"},
        equation="y = (a * sigmoid(a W_g)) W_o, a = concat_h(a_h): gates from what the heads have read.",
        paper="a control; cf. Qiu et al. 2025",
        tests=(LAYER,),
    ),
    choice(
        "model.attention.gate_input",
        "x",
        "attention",
        "input-gate",
        {"model.attention.gate": "elementwise"},
        equation="y = (a * sigmoid(x W_g)) W_o, a = concat_h(a_h): gates from the layer's input, as in output-gate.",
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
    choice("model.attention.ssmax", 0.4, "attention", "ssmax", source=head_options.LengthFactor, tests=(LAYER,)),
    choice(
        "model.attention.kind",
        "softmax_plus_one",
        "attention",
        "softmax-plus-one",
        source=other_weights.SoftmaxPlusOneAttention,
        tests=(LAYER, ZERO_KEY),
    ),
    choice(
        "model.attention.kind",
        "sigmoid",
        "attention",
        "sigmoid-attention",
        source=other_weights.SigmoidAttention,
        tests=(LAYER,),
    ),
    choice(
        "model.attention.kind",
        "forgetting",
        "attention",
        source=forgetting_attention.ForgettingAttention,
        tests=(LAYER,),
    ),
    choice(
        "model.attention.kind",
        "performer",
        "attention",
        source=favor.performer_attention,
        tests=(FAVOR, numpy_reference("layers/test_performer.py::test_outputs_and_gradients_are_the_equations")),
        details=(
            "phi(x)_j = exp(w_j . x - |x|^2 / 2), with M random vectors w_j in orthogonal blocks: its expected "
            "product is exp(q . k). q and k are multiplied by K^(-1/4) first.",
        ),
    ),
)
