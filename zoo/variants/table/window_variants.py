"""Variants of what a query sees: windows, global tokens, and layers of several kinds."""

from zoo.variants.table.entry import LAYER, ROPE, WHOLE
from zoo.variants.variant import Variant

ENCODER_WINDOW = {"model.attention.window": 257}

WINDOW_VARIANTS: tuple[Variant, ...] = (
    Variant(
        "window",
        "attention",
        {"model.attention.window": 256},
        paper="Beltagy et al. 2020, section 3.1; Jiang et al. 2023 (Mistral)",
        equation="Query t sees the keys s with t - W < s <= t: W keys, including its own.",
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
        equation="Query t sees the keys s with |t - s| <= (W - 1) / 2: W keys, including its own, W odd.",
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
            "Query t of head h sees the keys s = t - i d, 0 <= i < W: W keys over W d tokens; heads take the "
            "dilations d in turn."
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
        equation="Like symmetric-window, but the first g tokens see all keys s, and every query sees s < g.",
        baseline="encoder",
        tests=(LAYER,),
        details=("Two layers suffice for any two tokens to depend on each other, by way of a global one.",),
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
        equation="Layers alternate: in a local one query t sees t - W < s <= t, in a global one all s <= t.",
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
)
