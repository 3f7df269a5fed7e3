"""Mamba-2 (Dao & Gu 2024): layers of a state space model alone, without feed-forward layers and
positions.

    python train.py --config=configs/mamba2.py:tiny --workdir=runs/mamba2

Sizes: 130m (128,989,632 parameters), 370m (368,346,624), 780m (780,161,280), 1.3b (1,343,757,312) and
2.7b (2,702,599,680); tiny and smoke for a CPU. Shapes are those of the published checkpoints: states of
128 x 64, one group, twice as many values as the width, a vocabulary of 50,277 padded to 50,288. Training
is that of the Mamba paper (Gu & Dao 2023, appendix E.2.1), whose recipe Mamba-2 uses: 300 billion tokens
of the Pile in rows of 2048, and five times the rates of GPT-3, which fall to 1e-5.

As it stands, 130m fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, rate: float, rows: int) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": 2 * dim // 64,
        "optimizer.learning_rate": rate,
        "schedule.final_fraction": 1e-5 / rate,
        "data.batch_size": rows,
        "training.steps": round(300e9 / (2048 * rows)),
    }


SIZES = {
    "130m": _size(768, 24, 3e-3, 256),
    "370m": _size(1024, 48, 1.5e-3, 256),
    "780m": _size(1536, 48, 1.25e-3, 256),
    "1.3b": _size(2048, 48, 1e-3, 512),
    "2.7b": _size(2560, 64, 8e-4, 512),
}


def get_config(argument: str = "130m"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "none",
            "model.attention.kind": "mamba2",
            "model.attention.head_dim": 128,
            "model.ffn.kind": "none",
            "model.tie_embeddings": True,
            "model.init.std": 0.02,
            "model.init.scale_residual": True,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 50288,
            "data.sequence_length": 2048,
            "training.microbatch_size": 8,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.epsilon": 1e-8,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 3000,
        },
    )
    return sized(argument, base, SIZES)
