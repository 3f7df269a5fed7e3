"""Ministral 8B (Mistral AI 2024): Mistral whose layers are in turn one that sees all keys and three that see
32,768.

    python train.py --config=configs/ministral.py:tiny --workdir=runs/ministral

Sizes: 8b (8,019,808,256 parameters); tiny and smoke for a CPU. The shape is that of the published
checkpoint, which its authors release for rows of up to 128,000 tokens. They state no optimizer,
schedule, batch or budget; those of LLaMA 2 stand here, at 4 million tokens per update.

As it stands, 8b fits on 16 h200, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {
    "8b": {
        "model.dim": 4096,
        "model.num_layers": 36,
        "model.attention.num_heads": 32,
        "model.attention.num_kv_heads": 8,
        "model.attention.head_dim": 128,
        "model.ffn.hidden_dim": 12288,
    }
}


def get_config(argument: str = "8b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.layers.pattern": ("global", "local", "local", "local"),
            "model.layers.kinds.global.attention.window": 0,
            "model.layers.kinds.local.attention.window": 32768,
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 1e8,
            "model.attention.bias": False,
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 1,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 131072,
            "data.sequence_length": 131072,
            "data.batch_size": 32,
            "training.steps": 500_000,
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
