"""Variants of attention."""

from zoo.variants.table.entry import LAYER, ROPE, WHOLE, choice, numpy_reference
from zoo.variants.variant import ReferenceTest, Variant

ENCODER_WINDOW = {"model.attention.window": 257}
SINKS = ReferenceTest(
    "GptOssAttention of transformers", "tests/parity/parts/test_sinks.py::test_attention_sinks_match_gpt_oss", 1e-5
)
FAVOR = ReferenceTest(
    "FastAttention of performer-pytorch", "tests/parity/parts/test_performer.py::test_bidirectional_attention", 1e-5
)


ATTENTION_VARIANTS: tuple[Variant, ...] = (
    choice(
        "model.attention.kind",
        "softmax",
        "attention",
        "multi-head",
        source="zoo.layers.attention.softmax_attention:SoftmaxAttention",
        systems=("gpt2",),
        tests=(LAYER,),
        details=("A cache holds k and v of every token: 2 H K numbers in each layer, 2 G K where heads share them.",),
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
            "out_h = softmax(scale * q_r k_g^T) v_g, r = floor(h Q / H), with Q = `attention.num_query_heads`: "
            "groups of H / Q heads share a query, not a key and value."
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
            "In cross-attention out_h = softmax(scale * q_h k_g^T) v_g, g = floor(h C / H), with C = "
            "`attention.cross_kv_heads` key and value heads of its own."
        ),
        baseline="encoder_decoder",
        tests=(numpy_reference("models/test_encoder_decoder.py::test_logits_match_the_reference", 2e-5),),
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
    Variant(
        "window",
        "attention",
        {"model.attention.window": 256},
        paper="Beltagy et al. 2020, section 3.1; Jiang et al. 2023 (Mistral)",
        equation="Query t sees the keys s with t - W < s <= t: W = `attention.window` keys, including its own.",
        systems=("mistral",),
        tests=(LAYER,),
        details=(
            "After L layers a token depends on the last L (W - 1) + 1 tokens (its receptive field). A cache keeps "
            "the last W tokens.",
        ),
        claims=("A3", "A4"),
        picture="mask",
    ),
    Variant(
        "symmetric-window",
        "attention",
        ENCODER_WINDOW,
        paper="Beltagy et al. 2020, section 3.1",
        baseline="encoder",
        equation=(
            "Query t sees the keys s with |t - s| <= (W - 1) / 2: W = `attention.window` keys, including its own, "
            "W odd."
        ),
        systems=("longformer-local",),
        tests=(LAYER,),
        details=("After L layers a token depends on L (W - 1) + 1 tokens around it (its receptive field).",),
        claims=("A4",),
        picture="mask",
    ),
    Variant(
        "dilated-window",
        "attention",
        {"model.attention.window": 256, "model.attention.dilations": (1, 2)},
        equation=(
            "Query t of head h sees the keys s = t - i d, 0 <= i < W: W = `attention.window` keys over W d tokens; "
            "heads take the dilations d (`attention.dilations`) in turn."
        ),
        paper="Beltagy et al. 2020, section 3.1, Dilated Sliding Window",
        tests=(LAYER,),
        details=(
            "After L layers in which all heads have dilation d, the receptive field spans L (W - 1) d + 1 tokens.",
        ),
        picture="mask",
    ),
    Variant(
        "global-tokens",
        "attention",
        ENCODER_WINDOW | {"model.attention.global_tokens": 1},
        paper="Beltagy et al. 2020, section 3.1",
        equation=(
            "Like symmetric-window, but the first g = `attention.global_tokens` tokens see all keys, and every query "
            "also sees the keys s < g."
        ),
        baseline="encoder",
        tests=(LAYER,),
        details=("After two layers any two tokens can depend on each other, through a global one.",),
        picture="mask",
    ),
    Variant(
        "global-projections",
        "attention",
        ENCODER_WINDOW | {"model.attention.global_tokens": 1, "model.attention.global_projections": True},
        baseline="encoder",
        equation=(
            "Like global-tokens, but the global tokens attend with q = x W_q', k = x W_k', v = x W_v', matrices of "
            "their own."
        ),
        paper="Beltagy et al. 2020, section 3.1, Linear Projections for Global Attention",
        systems=("longformer",),
        tests=(LAYER,),
    ),
    Variant(
        "local-global",
        "attention",
        {
            "model.layers.pattern": ("local", "global"),
            "model.layers.kinds.local.attention.window": 256,
            "model.layers.kinds.global.attention.window": 0,
        },
        equation=(
            "Layers alternate: in a local one query t sees the keys s with t - W < s <= t, W = `attention.window`, in "
            "a global one all s <= t."
        ),
        paper="Gemma Team 2024 (Gemma 2), section 2",
        systems=("gemma2", "gemma3"),
        tests=(WHOLE,),
        details=(
            "One global layer gives every later layer the whole row. The cache of a local layer keeps the last W "
            "tokens.",
        ),
        picture="mask",
    ),
    Variant(
        "nope-layers",
        "attention",
        ROPE
        | {
            "model.layers.pattern": ("rope", "rope", "rope", "plain"),
            "model.layers.kinds.rope.position.kind": "rope",
            "model.layers.kinds.plain.position.kind": "none",
        },
        equation=(
            "q and k are rotated in three of four layers; in every fourth they are not: score(t, s) = scale * q_t . "
            "k_s."
        ),
        paper="Yang et al. 2025 (RNoPE); SmolLM3",
        systems=("smollm3",),
        tests=(WHOLE,),
    ),
    choice(
        "model.attention.qk_norm",
        "head",
        "attention",
        "qk-norm",
        source="zoo.layers.attention.head_options:HeadNorm",
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
        source="zoo.layers.attention.head_options:HeadNorm",
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
        details=("Switched off: the factor 1 / sqrt(K). T5 makes the initial W_q smaller by this factor instead.",),
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
        "model.attention.kind",
        "performer",
        "attention",
        source="zoo.layers.attention.favor:performer_attention",
        tests=(
            FAVOR,
            numpy_reference("layers/attention/test_performer.py::test_outputs_and_gradients_match_the_equations"),
        ),
        details=(
            "phi(x)_j = exp(w_j . x - |x|^2 / 2), with M random vectors w_j in orthogonal blocks: its expected "
            "product is exp(q . k). q and k are multiplied by K^(-1/4) first.",
        ),
    ),
)
