"""Variants of what heads do with scores, and with what they have read."""

from zoo.config.kinds.convolution_kinds import PRO_RESULT
from zoo.variants.variant import Variant

_GATE_RESULT = (
    "Qiu et al. 2025, mixture of experts of 15B parameters, 400B tokens, perplexity: without a gate 6.026, with a "
    "gate for each element 5.761, for each head 5.792. The first token gets 0.467 of the attention without a gate, "
    "0.048 with one for each element."
)
_DENSE_GATE_RESULT = (
    "Qiu et al. 2025, dense model of 1.7B parameters, 3.5T tokens, perplexity: without a gate 6.180, with it 6.130."
)


HEAD_VARIANTS: tuple[Variant, ...] = (
    Variant(
        "cosine",
        "attention",
        {"model.attention.qk_norm": "cosine"},
        source="zoo.layers.attention.head_options:CosineNorm",
    ),
    Variant(
        "unit-heads",
        "attention",
        {"model.attention.qk_norm": "unit"},
        source="zoo.layers.attention.head_options:DimensionScale",
        details=(
            "Scores are multiplied by sqrt(K) (`attention.scale`), as products of random vectors of length 1 are "
            "about 1 / sqrt(K). It is the attention of nGPT.",
        ),
    ),
    Variant(
        "value-norm",
        "attention",
        {"model.attention.value_norm": True},
        source="zoo.layers.attention.head_options:ValueNorm",
        paper="Gemma Team 2025 (Gemma 3n)",
        synonyms=("v-norm",),
    ),
    Variant(
        "output-norm",
        "attention",
        {"model.attention.output_norm": True},
        source="zoo.layers.attention.head_options:OutputNorm",
        published=(PRO_RESULT,),
    ),
    Variant(
        "output-gate",
        "attention",
        {"model.attention.gate": "elementwise"},
        source="zoo.layers.attention.head_options:OutputGate",
        paper="Qiu et al. 2025; Qwen Team 2025 (Qwen3-Next)",
        published=(_GATE_RESULT, _DENSE_GATE_RESULT),
        synonyms=("gated-attention",),
    ),
    Variant(
        "head-gate",
        "attention",
        {"model.attention.gate": "head"},
        equation=(
            "y = concat_h(a_h * sigmoid(x w_h)) W_o, a_h what head h has read and w_h a learned vector: one gate "
            "for each head, from the layer's input x."
        ),
        paper="Qiu et al. 2025",
        published=(
            _GATE_RESULT,
            (
                "Modded-nanogpt 2025 (record of August 23), a gate for each head from 12 of the input's channels: an "
                "estimated 50 of 1,750 steps saved."
            ),
            "Karpathy 2026 (nanochat's experiment log): a gate for each head is no improvement.",
            (
                "Parameter-golf 2026 (pull request 2005), three seeds: a gate for each head lowers the loss by 0.0005 "
                "bits per byte."
            ),
        ),
    ),
    Variant(
        "attended-gate",
        "attention",
        {"model.attention.gate_input": "attended"},
        needs={"model.attention.gate": "elementwise"},
        equation=(
            "y = (a * sigmoid(a W_g)) W_o, a what all heads have read, side by side: the gates are computed from "
            "the values that they gate."
        ),
        paper="a control; cf. Qiu et al. 2025",
    ),
    Variant(
        "input-gate",
        "attention",
        {"model.attention.gate_input": "x"},
        needs={"model.attention.gate": "elementwise"},
        equation=(
            "y = (a * sigmoid(x W_g)) W_o, a what all heads have read, side by side: gates from the layer's input "
            "x, as in output-gate."
        ),
        paper="Qiu et al. 2025",
        published=(_GATE_RESULT, _DENSE_GATE_RESULT),
    ),
    Variant(
        "exclusive",
        "attention",
        {"model.attention.exclusive": True},
        equation=(
            "y_h = a_h - (a_h . v) v / |v|^2, a_h what head h has read and v the value of the token itself: the "
            "part of a head's output along the token's own value is removed."
        ),
        paper="Zhai 2026 (XSA)",
        published=(
            (
                "Zhai 2026, up to 2.7B parameters: better than attention without it at every size, by 1.36 points on "
                "average over tasks at 2.7B, and by more on longer rows."
            ),
            (
                "Karpathy 2026 (nanochat's experiment log), in the last three layers without value embeddings: "
                "slightly better at equal steps, not at equal time."
            ),
        ),
        synonyms=("xsa",),
    ),
    Variant(
        "ssmax",
        "attention",
        {"model.attention.ssmax": 0.4},
        source="zoo.layers.attention.head_options:LengthFactor",
        published=(
            "Nakanishi 2025: the loss falls faster in pre-training, and long contexts and retrieval from them are "
            "much better than with softmax; replacing softmax after pre-training helps less.",
        ),
    ),
    Variant(
        "negative-eigenvalues",
        "attention",
        {"model.attention.negative_eigenvalues": True},
        needs={"model.attention.kind": "gated_delta"},
        equation=(
            "b = 2 sigmoid(x w_b) in place of sigmoid(x w_b), in S_t = a_t (1 - b_t k_t k_t^T) S_(t-1) + "
            "b_t k_t v_t^T: a token can turn the sign of what the state holds along its key."
        ),
        paper="Grazzi et al. 2024",
        published=(
            "Grazzi et al. 2024: with eigenvalues down to -1, DeltaNet and Mamba learn parity and other tasks of "
            "tracking a state, which they do not learn without; language modelling is as good.",
        ),
    ),
    Variant(
        "kda-gate-without-bias",
        "attention",
        {"model.attention.gate_bias": False},
        needs={"model.attention.kind": "kimi_delta"},
        equation=(
            "y_h = RMSNorm(S_t^T q_t / sqrt(K)) * sigmoid(x W_1 W_2)_h, the output of Kimi Delta Attention without the "
            "vector c in its gates, as in the published models."
        ),
        paper="Kimi Team 2025",
    ),
    Variant(
        "constant-lambda",
        "attention",
        {"model.attention.lambda_init": 0.8},
        needs={"model.attention.kind": "differential"},
        equation=(
            "lambda_0 = 0.8 in every layer, in place of 0.8 - 0.6 exp(-0.3 l): how much of the second softmax of a "
            "pair of heads is subtracted at first."
        ),
        paper="Ye et al. 2024, section 3.8",
    ),
    Variant(
        "latent-queries",
        "attention",
        {"model.attention.query_latent_dim": 128},
        needs={"model.attention.kind": "latent", "model.position.kind": "rope"},
        equation=(
            "Latent attention with (q_h; q'_h) = Norm(x W_q) W'_h: matrices [D, r'] and [r', H (K + R)] in place of "
            "one, r' = `attention.query_latent_dim`, R = `attention.rotary_dim`. Fewer parameters and activations; "
            "the cache stays the same."
        ),
        paper="DeepSeek-AI 2024 (DeepSeek-V2), section 2.1.2, eq. 12 and 13",
    ),
)
