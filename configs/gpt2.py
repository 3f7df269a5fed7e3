"""GPT-2 (Radford et al. 2019): pre-norm decoder, LayerNorm, learned positions, GELU (tanh), tied
head.

    python train.py --config=configs/gpt2.py:tiny --workdir=runs/gpt2

Sizes: small (124,439,808 parameters), medium (354,823,168), large (774,030,080), xl
(1,557,611,200); tiny and smoke for a CPU. Optimizer and batch follow the usual reproduction of the
124M model (AdamW, rate 6e-4, betas 0.9 and 0.95, decay 0.1, 480 rows per update); the paper states
512 rows and no optimizer. On a GPU the tables have 50,304 rows for the 50,257 ids: products are faster
with a multiple of 64, and the rows that are added stay 0.

As it stands, small fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {
    "small": {"model.dim": 768, "model.num_layers": 12, "model.attention.num_heads": 12},
    "medium": {
        "model.dim": 1024,
        "model.num_layers": 24,
        "model.attention.num_heads": 16,
        "optimizer.learning_rate": 3e-4,
    },
    "large": {
        "model.dim": 1280,
        "model.num_layers": 36,
        "model.attention.num_heads": 20,
        "optimizer.learning_rate": 2.5e-4,
    },
    "xl": {"model.dim": 1600, "model.num_layers": 48, "model.attention.num_heads": 25, "optimizer.learning_rate": 2e-4},
}


def get_config(argument: str = "small"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "learned",
            "model.position.max_length": 1024,
            "model.ffn.kind": "gelu",
            "model.ffn.gelu_approximation": "tanh",
            "model.tie_embeddings": True,
            "model.vocab_multiple": 64,
            "model.init.std": 0.02,
            "model.init.scale_residual": True,
            "model.dtype": "bfloat16",
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 50257,
            "data.sequence_length": 1024,
            "data.batch_size": 480,
            "training.microbatch_size": 12,
            "training.steps": 600_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 6e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 2000,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
