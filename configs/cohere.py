"""Command R, Command R+ and Aya (Cohere 2024): attention and SwiGLU side by side behind one LayerNorm without
bias, neighbouring pairs rotated, and scaled logits of a tied head.

    python train.py --config=configs/cohere.py:tiny --workdir=runs/cohere

Sizes: aya-8b (8,028,033,024 parameters), command-r (34,980,831,232) and command-r-plus (103,810,674,688);
tiny and smoke for a CPU. Shapes are those of the published checkpoints. Nothing of the training is
published; rate, batch and steps here are those of LLaMA 65B.

As it stands, command-r fits on 64 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, kv_heads: int, hidden: int, theta: float, **more) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": kv_heads,
        "model.ffn.hidden_dim": hidden,
        "model.position.theta": theta,
    } | more


SIZES = {
    "aya-8b": _size(4096, 32, 32, 8, 14336, 10000.0, **{"model.head.multiplier": 0.0625}),
    "command-r": _size(8192, 40, 64, 64, 22528, 8e6, **{"model.head.multiplier": 0.0625}),
    "command-r-plus": _size(
        12288, 64, 96, 8, 33792, 7.5e7,
        **{"model.head.multiplier": 0.8333333333333334, "model.attention.qk_norm": "head_layernorm"},
    ),
}  # fmt: skip


def get_config(argument: str = "command-r"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.parallel": "shared_norm",
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.bias": False,
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.layout": "interleaved",
            "model.attention.bias": False,
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": True,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 4,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 256000,
            "data.sequence_length": 8192,
            "data.batch_size": 512,
            "training.steps": 350_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 1.5e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 2000,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
