"""The decoder that most experiments share, in three sizes, so that their results are comparable.

| size | hardware | D, L, H | tokens per row, rows per batch, steps |
| --- | --- | --- | --- |
| tiny | two cores, a few minutes per sweep | 64, 4, 4 | 64, 16, 500 |
| small | a workstation, hours | 256, 6, 8 | 256, 32, 5,000 |
| gpu | an accelerator | 512, 12, 8 | 1,024, 32, 20,000, bfloat16 |

Pre-norm, RoPE, GELU, no biases, untied head; AdamW with beta2 0.98 and weight decay 0.1; cosine
schedule after a warm-up of a tenth of the steps; trained on the bytes of Python's standard library.
"""

from collections.abc import Mapping
from typing import Any

import ml_collections

from zoo import config
from zoo.lab.experiment import Tune, choose_size

SIZES: Mapping[str, Mapping[str, Any]] = {
    "tiny": {
        "model.dim": 64,
        "model.num_layers": 4,
        "model.attention.num_heads": 4,
        "data.sequence_length": 64,
        "data.batch_size": 16,
        "training.steps": 500,
    },
    "small": {
        "model.dim": 256,
        "model.num_layers": 6,
        "model.attention.num_heads": 8,
        "data.sequence_length": 256,
        "data.batch_size": 32,
        "training.steps": 5000,
    },
    "gpu": {
        "model.dim": 512,
        "model.num_layers": 12,
        "model.attention.num_heads": 8,
        "data.sequence_length": 1024,
        "data.batch_size": 32,
        "training.steps": 20_000,
        "model.dtype": "bfloat16",
    },
}
RATES = {"tiny": 5e-3, "small": 2e-3, "gpu": 1e-3}


def decoder(size: str, changes: Mapping[str, Any] | None = None) -> ml_collections.ConfigDict:
    """Returns the config of a size with flat overrides.

    Raises:
        ConfigError: an unknown size.
    """
    chosen = choose_size(size, SIZES)
    steps = (changes or {}).get("training.steps", chosen["training.steps"])
    return config.override(
        config.default(),
        {
            "model.position.kind": "rope",
            "model.tie_embeddings": False,
            "model.attention.bias": False,
            "model.ffn.bias": False,
            "model.init.kernel": "xavier_uniform",
            "optimizer.beta2": 0.98,
            "optimizer.weight_decay": 0.1,
            "optimizer.clip_norm": 1.0,
            "optimizer.learning_rate": RATES[size],
            "schedule.kind": "cosine",
            "schedule.warmup_steps": steps // 10,
            "training.eval_every": config.AUTO,
            "training.eval_batches": 100,
            "training.checkpoint_every": steps,
            **chosen,
            **(changes or {}),
        },
    )


def rates(size: str, *factors: float) -> Tune:
    """Returns a grid of learning rates around that of a size, by default 0.4, 1 and 2.5 times it.

    The grid is tried with one seed that is not among those of the experiment.
    """
    return Tune("optimizer.learning_rate", tuple(RATES[size] * factor for factor in factors or (0.4, 1, 2.5)))


def sized_name(name: str, size: str) -> str:
    """Returns the name of an experiment in a size: `name` for tiny, else `name-size`."""
    return name if size == "tiny" else f"{name}-{size}"
