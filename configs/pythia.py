"""GPT-NeoX (Black et al. 2022) in the sizes of Pythia (Biderman et al. 2023): attention and feed-forward
layer side by side, each with its LayerNorm, and RoPE on a quarter of each head.

    python train.py --config=configs/pythia.py:tiny --workdir=runs/pythia

Sizes: 14m (14,067,712 parameters), 70m (70,426,624), 160m (162,322,944), 410m (405,334,016), 1b
(1,011,781,632), 1.4b (1,414,647,808), 2.8b (2,775,208,960), 6.9b (6,857,302,016) and 12b
(11,846,072,320); tiny and smoke for a CPU. Shapes, rates and the 143,000 steps of 1024 rows of 2048
tokens are those of the authors' configurations. The vocabulary has 50,304 rows up to 2.8b, 50,432 in
6.9b and 50,688 in 12b. Initial values have the standard deviation sqrt(2 / (5 D)); the authors' output
matrices begin at 2 / (L sqrt(D)), here at 1 / sqrt(2 L) of the others.

As it stands, 160m fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, rate: float, vocabulary: int = 50304) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.init.std": (2 / (5 * dim)) ** 0.5,
        "data.tokenizer.vocab_size": vocabulary,
        "optimizer.learning_rate": rate,
    }


SIZES = {
    "14m": _size(128, 6, 4, 1e-3),
    "70m": _size(512, 6, 8, 1e-3),
    "160m": _size(768, 12, 12, 6e-4),
    "410m": _size(1024, 24, 16, 3e-4),
    "1b": _size(2048, 16, 8, 3e-4),
    "1.4b": _size(2048, 24, 16, 2e-4),
    "2.8b": _size(2560, 32, 32, 1.6e-4),
    "6.9b": _size(4096, 32, 32, 1.2e-4, 50432),
    "12b": _size(5120, 36, 40, 1.2e-4, 50688),
}


def get_config(argument: str = "160m"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.parallel": "own_norms",
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.position.fraction": 0.25,
            "model.ffn.kind": "gelu",
            "model.tie_embeddings": False,
            "model.init.scale_residual": True,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 16,
            "data.tokenizer.kind": "bpe",
            "data.sequence_length": 2048,
            "data.batch_size": 1024,
            "training.steps": 143_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 1430,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
