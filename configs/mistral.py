"""Mistral 7B (Jiang et al. 2023): LLaMA with 8 key/value heads and attention to a window of 4096
keys, the token itself included.

    python train.py --config=configs/mistral.py:tiny --workdir=runs/mistral

Sizes: 7b (7,241,732,096 parameters); tiny and smoke for a CPU. The shape is Table 1 of the paper.
The paper states no optimizer, schedule, batch or budget; those of LLaMA 2 (Touvron et al. 2023b,
section 2.2) stand here, at the same 4 million tokens per update.

As it stands, 7b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {
    "7b": {
        "model.dim": 4096,
        "model.num_layers": 32,
        "model.attention.num_heads": 32,
        "model.attention.num_kv_heads": 8,
        "model.attention.head_dim": 128,
        "model.ffn.hidden_dim": 14336,
    }
}


def get_config(argument: str = "7b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.attention.window": 4096,
            "model.attention.bias": False,
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 4,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 32000,
            "data.sequence_length": 8192,
            "data.batch_size": 512,
            "training.steps": 500_000,
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
