"""OPT (Zhang et al. 2022): a GPT with ReLU, learned positions after two unused rows, and biases; the
model of 350M parameters has post-norm and embeddings of half the width.

    python train.py --config=configs/opt.py:tiny --workdir=runs/opt

Sizes: 125m (125,239,296 parameters), 350m (331,196,416), 1.3b (1,315,758,080), 2.7b (2,651,596,800),
6.7b (6,658,473,984), 13b (12,853,473,280), 30b (29,974,540,288), 66b (65,719,701,504) and 175b
(174,604,468,224); tiny and smoke for a CPU. Shapes, rates and batches in tokens are table 1, where a
million is 2^20 in the authors' code (metaseq). Rows of 2048 tokens, 300 billion tokens, AdamW with betas
0.9 and 0.95, decay 0.1, dropout 0.1 (attention too), clipping at 1, a warm-up over 375 million tokens (2000
updates in 175b) and a linear decay to 10% are section 2.2. The paper drops out no embedding; here they
have the dropout of the sublayers. Initial values: normal, 0.006.

As it stands, 125m fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

TOKENS, WARMUP = 300e9, 375e6


def _size(dim: int, layers: int, heads: int, rate: float, millions: float, **more) -> dict:
    rows = round(millions * 2**20 / 2048)
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "optimizer.learning_rate": rate,
        "data.batch_size": rows,
        "training.steps": round(TOKENS / (2048 * rows)),
        "schedule.warmup_steps": round(WARMUP / (2048 * rows)),
    } | more


SIZES = {
    "125m": _size(768, 12, 12, 6e-4, 0.5),
    "350m": _size(
        1024, 24, 16, 3e-4, 0.5,
        **{"model.norm.placement": "post", "model.embedding.dim": 512, "model.embedding.projection": "tokens"},
    ),
    "1.3b": _size(2048, 24, 32, 2e-4, 1.0),
    "2.7b": _size(2560, 32, 32, 1.6e-4, 1.0),
    "6.7b": _size(4096, 32, 32, 1.2e-4, 2.0),
    "13b": _size(5120, 40, 40, 1e-4, 4.0),
    "30b": _size(7168, 48, 56, 1e-4, 4.0),
    "66b": _size(9216, 64, 72, 0.8e-4, 2.0),
    "175b": _size(12288, 96, 96, 1.2e-4, 2.0, **{"schedule.warmup_steps": 2000}),
}  # fmt: skip


def get_config(argument: str = "125m"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "learned",
            "model.position.offset": 2,
            "model.ffn.kind": "relu",
            "model.tie_embeddings": True,
            "model.dropout": 0.1,
            "model.attention.dropout": 0.1,
            "model.init.std": 0.006,
            "model.init.scale_residual": True,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 16,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 50272,
            "data.sequence_length": 2048,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "linear",
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
