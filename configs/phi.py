"""Phi (Gunasekar et al. 2023, phi-1; Li et al. 2023, phi-1.5; Javaheripi et al. 2023, phi-2):
attention and feed-forward layer side by side behind one LayerNorm, RoPE on the first 32 dimensions of
each head, biases everywhere, untied head.

    python train.py --config=configs/phi.py:tiny --workdir=runs/phi

Sizes: 1 and 1.5 (1,418,270,720 parameters each; the papers say 1.3 billion) and 2 (2,779,683,840;
2.7 billion); tiny and smoke for a CPU. Stated for phi-1 (section 2.3): rows of 2048 tokens, 1024 rows
per update, 36,000 updates of AdamW, a rate of 1e-3 after 750, linear decay, decay 0.1, dropout 0.1.
For phi-1.5 (section 2.3): 2048 rows, 150 billion tokens, a constant rate of 2e-4 without warm-up,
betas 0.9 and 0.98, epsilon 1e-7, decay 0.1. For phi-2: 1.4 trillion tokens; its dropout is that of
the published checkpoint. Not stated for phi-2: rate and batch (those of phi-1.5).

As it stands, 1.5 fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SMALL = {"model.dim": 2048, "model.num_layers": 24, "model.attention.num_heads": 32, "model.position.fraction": 0.5}
SIZES = {
    "1": SMALL
    | {
        "model.dropout": 0.1,
        "model.attention.dropout": 0.1,
        "data.batch_size": 1024,
        "training.steps": 36_000,
        "optimizer.learning_rate": 1e-3,
        "optimizer.beta2": 0.999,
        "optimizer.epsilon": 1e-8,
        "schedule.kind": "linear",
        "schedule.warmup_steps": 750,
    },
    "1.5": SMALL | {"training.steps": 35_800},
    "2": {
        "model.dim": 2560,
        "model.num_layers": 32,
        "model.attention.num_heads": 32,
        "model.position.fraction": 0.4,
        "model.dropout": 0.1,
        "training.steps": 333_800,
    },
}


def get_config(argument: str = "1.5"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.parallel": "shared_norm",
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.position.layout": "half",
            "model.ffn.kind": "gelu",
            "model.ffn.gelu_approximation": "tanh",
            "model.tie_embeddings": False,
            "model.head.bias": True,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 16,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 51200,
            "data.sequence_length": 2048,
            "data.batch_size": 2048,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 2e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.98,
            "optimizer.epsilon": 1e-7,
            "schedule.kind": "constant",
            "schedule.warmup_steps": 0,
        },
    )
    return sized(argument, base, SIZES)
