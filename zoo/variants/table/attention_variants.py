"""Variants of attention."""

from zoo.config.kinds.attention_kinds import HEADS_RESULT, SINK_RESULT, UNSHARED_RESULTS
from zoo.variants.variant import Variant

_SHARED_RESULT = (
    "Ainslie et al. 2023, table 1, T5-XXL, seconds per sample and mean score: multi-head 1.51, 47.2; 8 groups 0.28, "
    "47.1; multi-query 0.24, 46.6."
)


ATTENTION_VARIANTS: tuple[Variant, ...] = (
    Variant(
        "grouped-query",
        "attention",
        {"model.attention.num_kv_heads": 4},
        equation=(
            "out_h = softmax(scale * q_h k_g^T) v_g, g = floor(h G / H): H / G query heads share a key and value head."
        ),
        paper="Ainslie et al. 2023",
        details=(
            "A cache holds 2 G K numbers for each token and layer, H / G times fewer than the 2 H K of multi-head "
            "attention. LLaMA 2 70B, with 80 layers, H = 64, G = 8 and K = 128, keeps 320 KiB for a token in "
            "bfloat16; without sharing it would be 2.5 MiB.",
        ),
        published=(_SHARED_RESULT, *UNSHARED_RESULTS),
        synonyms=("gqa", "grouped-query-attention"),
        claims=("A2",),
        picture="heads",
    ),
    Variant(
        "multi-query",
        "attention",
        {"model.attention.num_kv_heads": 1},
        equation="out_h = softmax(scale * q_h k^T) v: all H query heads share one key and value head, G = 1.",
        paper="Shazeer 2019",
        details=(
            "A cache holds 2 K numbers for each token and layer, H times fewer than the 2 H K of multi-head attention.",
        ),
        published=(
            _SHARED_RESULT,
            "Shazeer 2019, BLEU on the WMT14 English-German development set: multi-head 26.7, multi-query 26.5.",
        ),
        synonyms=("mqa", "multi-query-attention"),
        claims=("A2",),
        picture="heads",
    ),
    Variant(
        "shared-queries",
        "attention",
        {"model.attention.num_query_heads": 2},
        equation=(
            "out_h = softmax(scale * q_r k_g^T) v_g, r = floor(h Q / H), with Q = `attention.num_query_heads`: "
            "groups of H / Q heads share a query, not a key and value."
        ),
        paper="a control; cf. Shazeer 2019",
        details=(
            "A cache is as large as without sharing, 2 G K numbers for each token and layer: queries are not kept.",
        ),
        picture="heads",
    ),
    Variant(
        "grouped-cross-attention",
        "attention",
        {"model.attention.cross_kv_heads": 4},
        baseline="encoder_decoder",
        equation=(
            "In cross-attention out_h = softmax(scale * q_h k_g^T) v_g, g = floor(h C / H), with C = "
            "`attention.cross_kv_heads` key and value heads of its own."
        ),
        paper="Ainslie et al. 2023",
        picture="heads",
    ),
    Variant(
        "single-head",
        "attention",
        {"model.attention.num_heads": 1},
        equation="out = softmax(scale * q k^T) v with H = 1 and one head as wide as the model.",
        paper="a control; Vaswani et al. 2017, table 3, row A",
        published=(HEADS_RESULT,),
        picture="heads",
    ),
    Variant(
        "window",
        "attention",
        {"model.attention.window": 256},
        equation="Query t sees the keys s with t - W < s <= t: W = `attention.window` keys, including its own.",
        paper="Beltagy et al. 2020, section 3.1; Jiang et al. 2023 (Mistral)",
        details=(
            "After L layers a token depends on the last L (W - 1) + 1 tokens (its receptive field). A cache keeps "
            "the last W tokens.",
        ),
        published=("Beltagy et al. 2020, Longformer of 41M parameters, bits per character: enwik8 1.00, text8 1.10.",),
        synonyms=("swa", "sliding-window", "sliding-window-attention"),
        claims=("A3", "A4"),
        picture="mask",
    ),
    Variant(
        "symmetric-window",
        "attention",
        {"model.attention.window": 257},
        baseline="encoder",
        equation=(
            "Query t sees the keys s with |t - s| <= (W - 1) / 2: W = `attention.window` keys, including its own, W "
            "odd."
        ),
        paper="Beltagy et al. 2020, section 3.1",
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
        details=(
            "After L layers in which all heads have dilation d, the receptive field spans L (W - 1) d + 1 tokens.",
        ),
        published=(
            "Beltagy et al. 2020, table 4, bits per character on text8, first phase: no dilation 1.21, dilation in "
            "2 heads 1.20; windows that grow with depth 1.21, that shrink 1.24.",
        ),
        picture="mask",
    ),
    Variant(
        "global-tokens",
        "attention",
        {"model.attention.window": 257, "model.attention.global_tokens": 1},
        baseline="encoder",
        equation=(
            "Like symmetric-window, but the first g = `attention.global_tokens` tokens see all keys, and every "
            "query also sees the keys s < g."
        ),
        paper="Beltagy et al. 2020, section 3.1",
        details=("After two layers any two tokens can depend on each other, through a global one.",),
        synonyms=("global-attention",),
        picture="mask",
    ),
    Variant(
        "global-projections",
        "attention",
        {"model.attention.window": 257, "model.attention.global_tokens": 1, "model.attention.global_projections": True},
        baseline="encoder",
        equation=(
            "Like global-tokens, but the global tokens attend with q = x W_q', k = x W_k', v = x W_v', matrices of "
            "their own."
        ),
        paper="Beltagy et al. 2020, section 3.1, Linear Projections for Global Attention",
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
            "Layers alternate: in a local one query t sees the keys s with t - W < s <= t, W = `attention.window`, "
            "in a global one all s <= t."
        ),
        paper="Gemma Team 2024 (Gemma 2), section 2",
        details=(
            "One global layer gives every later layer the whole row. The cache of a local layer keeps the last W "
            "tokens.",
        ),
        picture="mask",
    ),
    Variant(
        "cross-layer-attention",
        "attention",
        {
            "model.layers.pattern": ("own", "reader"),
            "model.layers.kinds.own.attention.keys_from": "",
            "model.layers.kinds.reader.attention.keys_from": "own",
        },
        equation=(
            "out_h = softmax(scale * q_h k_g^T) v_g with q = x W_q of the layer itself, and k and v of the last layer "
            "of the kind that `attention.keys_from` names. Layers that read have no W_k and W_v."
        ),
        paper="Brandon et al. 2024; Sun et al. 2024 (YOCO); Gemma 3n",
        details=(
            "The pattern own,reader halves the cache of keys and values (CLA2), own,reader,reader leaves a third "
            "(CLA3). As in Gemma 3n the last layers can read the last earlier ones of the same window: with the "
            "pattern local,global,local_reader,global_reader of four layers, `keys_from` is local and global.",
            "Keys are rotated in their own layer. A kind of layers can read those of another whose heads of keys and "
            "values, window, positions and norm of queries and keys are the same. In decoding, its cache is empty.",
        ),
        published=(
            "Brandon et al. 2024, models of 1B and 3B parameters trained from scratch: half the cache of multi-query "
            "attention with nearly the same accuracy; sharing among two layers is better than among more.",
        ),
        synonyms=("cla", "shared-keys-and-values", "kv-sharing", "cross-layer-kv-sharing"),
        picture="architecture",
    ),
    Variant(
        "added-heads",
        "attention",
        {"model.attention.mixing": "sum"},
        needs={"model.attention.kind": "parallel_heads"},
        equation=(
            "y = a W_a + s W_s: heads of softmax attention, a, and heads with a state, s, read the same input, and "
            "each part has an output projection of its own."
        ),
        paper="Zuo et al. 2025 (Falcon-H1)",
        details=(
            "Falcon-H1 has Mamba-2 (`model.attention.state_kind=mamba2`), and also multiplies inputs and outputs of "
            "the parts by constants.",
        ),
        synonyms=("falcon-h1",),
    ),
    Variant(
        "nope-layers",
        "attention",
        {
            "model.layers.pattern": ("rope", "rope", "rope", "plain"),
            "model.layers.kinds.rope.position.kind": "rope",
            "model.layers.kinds.plain.position.kind": "none",
        },
        needs={"model.position.kind": "rope"},
        equation=(
            "q and k are rotated in three of four layers; in every fourth they are not: score(t, s) = scale * q_t . "
            "k_s."
        ),
        paper="Yang et al. 2025 (RNoPE); SmolLM3",
        published=(
            "Yang et al. 2025, with windows in the layers that have RoPE: better than RoPE in all layers on tasks "
            "with long contexts, and about as good with short ones.",
        ),
    ),
    Variant(
        "qk-norm",
        "attention",
        {"model.attention.qk_norm": "head"},
        source="zoo.layers.attention.head_options:HeadNorm",
        equation=(
            "q_h = q_h / sqrt(mean(q_h^2) + epsilon) * scale, and the same for k, before rotation: the mean over "
            "the K values of a head, one scale [K] for all heads. It is an RMSNorm whatever `norm.kind` is."
        ),
        paper="Henry et al. 2020; Dehghani et al. 2023; Qwen 3",
        published=(
            "Henry et al. 2020: 0.928 BLEU better on average over five pairs of languages with little data.",
            "Dehghani et al. 2023: without it attention scores diverge in a vision transformer of 8B parameters.",
        ),
        picture="architecture",
    ),
    Variant(
        "qk-norm-without-scale",
        "attention",
        {"model.attention.qk_norm_scale": False},
        needs={"model.attention.qk_norm": "head"},
        source="zoo.layers.attention.head_options:HeadNorm",
        equation=(
            "q_h = q_h / sqrt(mean(q_h^2) + epsilon), and the same for k: the norm of queries and keys without learned "
            "scales. The dot product of q_h and k_h is at most K, and a rotation before or after the norm is the same."
        ),
        paper="Jordan et al. 2024, modded-nanogpt; Karpathy 2025, nanochat",
    ),
    Variant(
        "qk-norm-full",
        "attention",
        {"model.attention.qk_norm": "full"},
        source="zoo.layers.attention.head_options:HeadNorm",
        equation=(
            "q = q / sqrt(mean(q^2) + epsilon) * scale, and the same for k, before rotation: the mean over the H K "
            "values of all heads, a scale [H K]. It is an RMSNorm whatever `norm.kind` is."
        ),
        paper="OLMo Team 2025 (OLMo 2)",
    ),
    Variant(
        "qk-layernorm",
        "attention",
        {"model.attention.qk_norm": "head_layernorm"},
        source="zoo.layers.attention.head_options:HeadLayerNorm",
    ),
    Variant(
        "clipped-qkv",
        "attention",
        {"model.attention.clip": 8.0},
        source="zoo.layers.attention.projections:Attention",
        equation=(
            "q = min(max(x W_q, -c), c), and the same for k and v, c = `attention.clip`; norms and rotation come "
            "afterwards."
        ),
        paper="Groeneveld et al. 2024 (OLMo's code); MPT's code",
        details=("OLMo 7B of July 2024 and its later versions, and MPT 30B, have c = 8 or 6.",),
    ),
    Variant(
        "attention-softcap",
        "attention",
        {"model.attention.softcap": 50.0},
        equation="score = c * tanh(scale * q . k / c), before masking and softmax.",
        paper="Gemma Team 2024 (Gemma 2), section 2",
    ),
    Variant(
        "sinks",
        "attention",
        {"model.attention.sinks": True},
        equation="p_s = exp(score_s) / (exp(b_h) + sum_r exp(score_r)), b_h learned per head.",
        paper="OpenAI 2025 (gpt-oss); Xiao et al. 2023",
        published=(f"{SINK_RESULT} That token has a key and a value; b_h is a score alone.",),
    ),
    Variant(
        "unscaled",
        "attention",
        {"model.attention.scale": 1.0},
        equation="score = q . k, without 1 / sqrt(K).",
        paper="Raffel et al. 2020 (T5); Vaswani et al. 2017, section 3.2.1",
        details=("Switched off: the factor 1 / sqrt(K). T5 makes the initial W_q smaller by this factor instead.",),
    ),
    Variant(
        "no-attention-bias",
        "attention",
        {"model.attention.bias": False},
        equation="q = x W_q without a bias; likewise for k, v and the output.",
        paper="Touvron et al. 2023 (LLaMA); Raffel et al. 2020 (T5)",
        details=("Switched off: the biases of W_q, W_k, W_v and W_o.",),
    ),
    Variant(
        "no-output-bias",
        "attention",
        {"model.attention.output_bias": False},
        equation="q = x W_q + b_q, likewise for k and v, and the output concat_h(a_h) W_o without a bias.",
        paper="GLM Team 2024, section 2",
        details=("Switched off: the bias of W_o.",),
    ),
    Variant(
        "learned-value-residual",
        "attention",
        {"model.attention.value_mix_learned": True},
        needs={"model.attention.kind": "value_residual"},
        equation=(
            "v = (1 - m) x W_v + m v_1, v_1 the values of the first layer, with a learned number m of each layer "
            "that begins at 1/2."
        ),
        paper="Zhou et al. 2024, section 3; modded-nanogpt's code",
        published=(
            "Jordan et al. 2024 (modded-nanogpt), GPT-2 of 124M parameters, 1.7B tokens of FineWeb, validation "
            "loss: 3.3274 without, 3.3151 with m = 1/2, 3.3065 with a learned m. Runs differ by 0.0014 (standard "
            "deviation).",
        ),
    ),
)
