"""Falcon (Almazrouei et al. 2023): attention with few key/value heads beside the feed-forward layer, no
biases; and Falcon-RW (Penedo et al. 2023): one after the other, with ALiBi and biases.

    python train.py --config=configs/falcon.py:tiny --workdir=runs/falcon

Sizes: 7b (6,921,720,704 parameters), 40b (41,303,293,952), 180b (178,557,088,768), rw-1b (1,311,625,216)
and rw-7b (7,516,020,736); tiny and smoke for a CPU. Rows of 2048 tokens, rates, batches, tokens (1.5, 1
and 3.5 trillion; 350 billion for Falcon-RW), the warm-up over 4 billion tokens (500 million), the cosine to
a tenth (a fiftieth in 7b), the decay of 0.1 and, without Falcon-RW, the z-loss of 1e-4 are those of the
model cards. Their batches rise over the first tokens, which this leaves out. The cards of Falcon-RW refer
to GPT-3 for the rest (betas 0.9 and 0.95, clipping at 1).

As it stands, 7b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(
    dim: int, layers: int, heads: int, kv_heads: int, rate: float, rows: int, tokens: float, warmup: float, **more
) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": kv_heads,
        "optimizer.learning_rate": rate,
        "data.batch_size": rows,
        "training.steps": round(tokens / (2048 * rows)),
        "schedule.warmup_steps": round(warmup / (2048 * rows)),
    } | more


RW = {
    "model.parallel": "none",
    "model.position.kind": "alibi",
    "model.position.scaled": True,
    "model.attention.bias": True,
    "model.ffn.bias": True,
    "optimizer.beta2": 0.95,
    "optimizer.clip_norm": 1.0,
    "objective.z_loss": 0.0,
}
SIZES = {
    "7b": _size(
        4544, 32, 71, 1, 6e-4, 2304, 1.5e12, 4e9, **{"model.parallel": "shared_norm", "schedule.final_fraction": 0.02}
    ),
    "40b": _size(8192, 60, 128, 8, 1.85e-4, 1152, 1e12, 4e9),
    "180b": _size(14848, 80, 232, 8, 1.25e-4, 2048, 3.5e12, 4e9),
    "rw-1b": _size(2048, 24, 32, 32, 2e-4, 512, 350e9, 0.5e9, **RW, **{"data.tokenizer.vocab_size": 50304}),
    "rw-7b": _size(4096, 36, 64, 64, 1.2e-4, 1024, 350e9, 0.5e9, **RW),
}


def get_config(argument: str = "7b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.parallel": "own_norms",
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.layout": "auto",
            "model.attention.bias": False,
            "model.ffn.kind": "gelu",
            "model.ffn.bias": False,
            "model.tie_embeddings": True,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 16,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 65024,
            "data.sequence_length": 2048,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.999,
            "objective.z_loss": 1e-4,
            "schedule.kind": "cosine",
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
