"""Granite 3.0 (Granite Team 2024): LLaMA with constant multipliers of the embedding, the scores, the
outputs of sublayers and the logits, which were found together with the rate by a search on small models.

    python train.py --config=configs/granite.py:tiny --workdir=runs/granite

Sizes: 2b (2,533,531,648 parameters) and 8b (8,170,848,256); tiny and smoke for a CPU. Shapes and
multipliers are those of the published checkpoints, for rows of 4096 tokens and 12 trillion tokens in two
stages (section 3). Not stated: batches; rates are those of the power scheduler there, which is
no schedule of this library (here a decay to 0 over the last tenth).

As it stands, 2b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, heads: int, hidden: int, scale: float, logits: float) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": 40,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": 8,
        "model.attention.scale": scale,
        "model.ffn.hidden_dim": hidden,
        "model.head.multiplier": 1 / logits,
    }


SIZES = {"2b": _size(2048, 32, 8192, 1 / 64, 8.0), "8b": _size(4096, 32, 12800, 1 / 128, 16.0)}


def get_config(argument: str = "2b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.attention.bias": False,
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": True,
            "model.embedding.multiplier": 12.0,
            "model.residual_multiplier": 0.22,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 8,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 49155,
            "data.sequence_length": 4096,
            "data.batch_size": 1024,
            "training.steps": 2_861_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 3e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "wsd",
            "schedule.decay_fraction": 0.1,
            "schedule.warmup_steps": 2000,
        },
    )
    return sized(argument, base, SIZES)
