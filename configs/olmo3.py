"""OLMo 3 (OLMo Team 2025b): OLMo 2 with grouped heads in its larger size and a window of 4,096 tokens in
three of four layers.

    python train.py --config=configs/olmo3.py:tiny --workdir=runs/olmo3

Sizes: 7b (7,298,011,136 parameters) and 32b (32,233,522,176); tiny and smoke for a CPU. Shapes are those
of the published checkpoints. Rows, batches, rates, the z-loss and the warm-up are those of the authors'
pre-training scripts (OLMo-core, `scripts/official/OLMo3`); the 7b was first scheduled for the 5 trillion
tokens that stand here. Norms are decayed there, the embedding is not. The middle stage, and the last one for
long texts, in which YaRN stretches the layers without a window, are not part of this.

As it stands, 7b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import by_role, default, override, sized


def _size(dim: int, layers: int, heads: int, kv_heads: int, hidden: int, rate: float, rows: int, steps: int) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": kv_heads,
        "model.ffn.hidden_dim": hidden,
        "optimizer.learning_rate": rate,
        "data.batch_size": rows,
        "training.steps": steps,
    }


SIZES = {
    "7b": _size(4096, 32, 32, 32, 11008, 3e-4, 512, 1_192_000),
    "32b": _size(5120, 64, 40, 8, 27648, 6e-4, 1024, 656_000),
}


def get_config(argument: str = "7b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.layers.pattern": ("local", "local", "local", "global"),
            "model.layers.kinds.local.attention.window": 4096,
            "model.layers.kinds.global.attention.window": 0,
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "reordered",
            "model.norm.epsilon": 1e-6,
            "model.position.kind": "rope",
            "model.position.theta": 5e5,
            "model.attention.bias": False,
            "model.attention.qk_norm": "full",
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 4,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 100278,
            "data.sequence_length": 8192,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.weight_decay": 0.1,
            **by_role(embedding={"weight_decay": 0.0}, vector={"weight_decay": 0.1}),
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "objective.z_loss": 1e-5,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 2000,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
