"""Nemotron-4 (Parmar et al. 2024; NVIDIA 2024) and Minitron (Muralidharan et al. 2024): squared ReLU without a
gate, LayerNorm with factors stored minus one, RoPE on half of each head, no biases.

    python train.py --config=configs/nemotron.py:tiny --workdir=runs/nemotron

Sizes: 15b (15,628,775,424 parameters), 340b (341,029,195,776) and minitron-4b (4,190,509,056), which is 15b
with smaller layers; tiny and smoke for a CPU. Shapes, rows of 4096 tokens, 8 trillion tokens (9 for 340b)
and batches of 1152 (2304) rows, which rise to that, are those of the reports; deviations of initial values
are those of NeMo. Not stated: rates (a peak of 4.5e-4 that falls to a tenth here).

As it stands, 15b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, hidden: int, rows: int, steps: int, std: float) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": 8,
        "model.ffn.hidden_dim": hidden,
        "model.init.std": std,
        "data.batch_size": rows,
        "training.steps": steps,
    }


SIZES = {
    "15b": _size(6144, 32, 48, 24576, 1152, 1_695_000, 0.0134),
    "340b": _size(18432, 96, 96, 73728, 2304, 953_700, 0.0063),
    "minitron-4b": _size(3072, 32, 24, 9216, 1152, 20_000, 0.0134) | {"model.attention.head_dim": 128},
}


def get_config(argument: str = "15b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.unit_offset": True,
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.fraction": 0.5,
            "model.attention.bias": False,
            "model.ffn.kind": "relu_squared",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 8,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 256000,
            "data.sequence_length": 4096,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 4.5e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 2000,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
