"""Helium 1 (Kyutai 2025), the preview: LLaMA with RoPE over neighbouring pairs.

    python train.py --config=configs/helium.py:tiny --workdir=runs/helium

Sizes: preview-2b (2,172,643,840 parameters); tiny and smoke for a CPU. The shape, the base of 1e5 and the
epsilon of 1e-8 are those of the published checkpoint. The announcement states 2.5 trillion tokens and that weights
were distilled from a larger model, which this does not do; it states no optimizer, rate, schedule or
batch. Those of LLaMA 2 stand here, at 4 million tokens per update.

As it stands, preview-2b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {
    "preview-2b": {
        "model.dim": 2560,
        "model.num_layers": 24,
        "model.attention.num_heads": 20,
        "model.attention.head_dim": 128,
        "model.ffn.hidden_dim": 7040,
    }
}


def get_config(argument: str = "preview-2b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-8,
            "model.position.kind": "rope",
            "model.position.theta": 1e5,
            "model.position.layout": "interleaved",
            "model.attention.bias": False,
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 8,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 48000,
            "data.sequence_length": 4096,
            "data.batch_size": 1024,
            "training.steps": 600_000,
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
