"""Gemma 2 (Gemma Team 2024): local and global layers in turn, RMSNorm before and after each
sublayer, GeGLU, capped scores and logits.

    python train.py --config=configs/gemma2.py:tiny --workdir=runs/gemma2

Sizes: 2b (2,614,341,888 parameters), 9b (9,241,705,984) and 27b (27,227,128,320); tiny and smoke
for a CPU. Shapes, the window of 4096 keys, the caps of 50 and 30 and the budgets of 2, 8 and 13
trillion tokens are Table 1 and section 2 and 3 of the report; the paper's "feedforward dim" counts
both halves of the gated layer. 27b scales its scores by 1 / sqrt(D / H) where the others have 1 /
sqrt(K). Not stated: optimizer, rate, schedule and batch (here those of LLaMA 2, at 4 million tokens
per update); 2b and 9b were distilled from a larger model, which this does not do.

As it stands, 2b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, kv_heads: int, head_dim: int, hidden: int, steps: int, **more) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": kv_heads,
        "model.attention.head_dim": head_dim,
        "model.ffn.hidden_dim": hidden,
        "training.steps": steps,
        **more,
    }


SIZES = {
    "2b": _size(2304, 26, 8, 4, 256, 9216, 480_000),
    "9b": _size(3584, 42, 16, 8, 256, 14336, 1_900_000),
    "27b": _size(4608, 46, 32, 16, 128, 36864, 3_100_000) | {"model.attention.scale": (4608 / 32) ** -0.5},
}


def get_config(argument: str = "2b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.layers.pattern": ("local", "global"),
            "model.layers.kinds.local.attention.window": 4096,
            "model.layers.kinds.global.attention.window": 0,
            "model.embedding.scale": "sqrt_dim",
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "sandwich",
            "model.norm.unit_offset": True,
            "model.norm.epsilon": 1e-6,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.attention.softcap": 50.0,
            "model.attention.bias": False,
            "model.ffn.kind": "geglu",
            "model.ffn.gelu_approximation": "tanh",
            "model.ffn.bias": False,
            "model.tie_embeddings": True,
            "model.head.softcap": 30.0,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 4,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 256000,
            "data.sequence_length": 8192,
            "data.batch_size": 512,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 3e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.epsilon": 1e-5,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 2000,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
