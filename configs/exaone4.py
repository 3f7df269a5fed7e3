"""EXAONE 4.0 (LG AI Research 2025): norms after the sublayers, an RMSNorm of each head's queries and keys,
and in 32b three local layers with RoPE to a global one without positions.

    python train.py --config=configs/exaone4.py:tiny --workdir=runs/exaone4

Sizes: 32b (32,003,216,384 parameters) and 1.2b (1,279,391,488), whose layers are all global and
have RoPE; tiny and smoke for a CPU. Local layers see 4096 keys. Shapes are those of the published
checkpoints, whose RoPE is stretched for long rows afterwards; the 14 trillion tokens of 32b and 12 of
1.2b are the report's (arXiv:2507.11407, section 2). Not stated: optimizer, rate, schedule and batch (here
those of LLaMA 2, at 4 million tokens per update).

As it stands, 32b fits on 64 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

HYBRID = {
    "model.layers.pattern": ("local", "local", "local", "global"),
    "model.layers.kinds.local.attention.window": 4096,
    "model.layers.kinds.global.position.kind": "none",
}


def _size(dim: int, layers: int, heads: int, head_dim: int, hidden: int, tied: bool, steps: int) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": 8,
        "model.attention.head_dim": head_dim,
        "model.ffn.hidden_dim": hidden,
        "model.tie_embeddings": tied,
        "training.steps": steps,
    }


SIZES = {
    "32b": _size(5120, 64, 40, 128, 27392, False, 3_340_000) | HYBRID,
    "1.2b": _size(2048, 30, 32, 64, 4096, True, 2_860_000),
}


def get_config(argument: str = "32b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "reordered",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 1e6,
            "model.attention.bias": False,
            "model.attention.qk_norm": "head",
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 8,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 102400,
            "data.sequence_length": 4096,
            "data.batch_size": 1024,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 3e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 2000,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
