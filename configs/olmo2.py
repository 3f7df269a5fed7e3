"""OLMo 2 (OLMo Team 2025): LLaMA with the norms after the sublayers, inside the residual connection, and
an RMSNorm of all queries and of all keys of a token.

    python train.py --config=configs/olmo2.py:tiny --workdir=runs/olmo2

Sizes: 1b (1,484,916,736 parameters), 7b (7,298,617,344), 13b (13,716,198,400) and 32b
(32,234,279,936); tiny and smoke for a CPU. Shapes are those of the published checkpoints; rates,
batches, the z-loss of 1e-5, the rows of 4096 tokens and the base of 5e5 are section 3 of the report,
the steps those of its first stage, of 4, 4, 5 and 6 trillion tokens. Warm-ups (8.4 billion
tokens, 16.8 in 32b) and the decay, of norms too but not of the embedding, are those of the authors'
configuration files. The second stage, on a smaller mixture at a rate that falls to 0, is not part of this.

As it stands, 7b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import by_role, default, override, sized


def _size(
    dim: int, layers: int, heads: int, kv_heads: int, hidden: int, rate: float, rows: int, steps: int, warmup: int
) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": kv_heads,
        "model.ffn.hidden_dim": hidden,
        "optimizer.learning_rate": rate,
        "data.batch_size": rows,
        "training.steps": steps,
        "schedule.warmup_steps": warmup,
    }


SIZES = {
    "1b": _size(2048, 16, 16, 16, 8192, 4e-4, 512, 1_900_000, 4000),
    "7b": _size(4096, 32, 32, 32, 11008, 3e-4, 1024, 950_000, 2000),
    "13b": _size(5120, 40, 40, 40, 13824, 9e-4, 2048, 600_000, 1000),
    "32b": _size(5120, 64, 40, 8, 27648, 6e-4, 2048, 720_000, 2000),
}


def get_config(argument: str = "7b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
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
            "training.microbatch_size": 8,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 100352,
            "data.sequence_length": 4096,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.weight_decay": 0.1,
            **by_role(embedding={"weight_decay": 0.0}, vector={"weight_decay": 0.1}),
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "objective.z_loss": 1e-5,
            "schedule.kind": "cosine",
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
