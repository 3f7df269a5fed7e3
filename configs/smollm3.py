"""SmolLM 3 (Bakouch et al. 2025): LLaMA with 4 key/value heads, in which every fourth layer has no
positions.

    python train.py --config=configs/smollm3.py:tiny --workdir=runs/smollm3

Sizes: 3b (3,075,098,624 parameters); tiny and smoke for a CPU. The shape is that of the published
checkpoint. The authors' post states rows of 4096 tokens with documents kept apart, 2.36 million tokens
per update, 11.2 trillion in all, a rate of 2e-4 that is constant after 2000 steps and falls linearly to
0 over the last tenth, and a base of 5e4 in this stage; the checkpoint, made for longer rows afterwards,
has 5e6. Steps, those of the decay (522,000), initial values and epsilon are those of the authors'
configuration, where norms are decayed and the embedding is not.

As it stands, 3b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import by_role, default, override, sized

SIZES = {
    "3b": {
        "model.dim": 2048,
        "model.num_layers": 36,
        "model.attention.num_heads": 16,
        "model.attention.num_kv_heads": 4,
        "model.ffn.hidden_dim": 11008,
    }
}


def get_config(argument: str = "3b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.layers.pattern": ("rope", "rope", "rope", "plain"),
            "model.layers.kinds.rope.position.kind": "rope",
            "model.layers.kinds.plain.position.kind": "none",
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-6,
            "model.position.kind": "rope",
            "model.position.theta": 5e4,
            "model.attention.bias": False,
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": True,
            "model.init.std": 0.02,
            "model.init.scale_residual": True,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 8,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 128256,
            "data.sequence_length": 4096,
            "data.isolate_documents": True,
            "data.batch_size": 576,
            "training.steps": 4_720_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 0.0002,
            "optimizer.weight_decay": 0.1,
            **by_role(embedding={"weight_decay": 0.0}, vector={"weight_decay": 0.1}),
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.decay_fraction": 522_000 / 4_720_000,
            "schedule.kind": "wsd",
            "schedule.warmup_steps": 2000,
            "schedule.final_fraction": 0.0,
        },
    )
    return sized(argument, base, SIZES)
