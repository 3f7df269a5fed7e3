"""The decoder that most experiments share, in several sizes, so that their results are comparable.

| size | hardware | D, L, H | tokens per row, rows per batch, steps | parameters, tokens |
| --- | --- | --- | --- | --- |
| micro | one core, seconds per run | 32, 4, 4 | 64, 8, 250 | 66 k, 128 k |
| tiny | two cores, a few minutes per sweep | 64, 4, 4 | 64, 16, 500 | 230 k, 512 k |
| medium | one core, minutes per run | 128, 4, 4 | 64, 32, 1,000 | 0.85 M, 2 M |
| small | a workstation, hours | 256, 6, 8 | 256, 32, 5,000 | 4.9 M, 41 M |
| gpu | an accelerator | 512, 12, 8 | 1,024, 32, 20,000, bfloat16 | 38 M, 655 M |
| rung1 | one core, minutes per run | 64, 4, 2 | 128, 32, 1,250 | 230 k, 5.1 M |
| rung2 | a GPU, seconds per run; a core, an hour | 128, 4, 4 | 128, 64, 2,200 | 0.85 M, 18 M |
| rung3 | a GPU, minutes per run | 256, 4, 8 | 256, 64, 4,300 | 3.3 M, 70 M |

`micro`, `tiny` and `medium` are a ladder (`LADDER`): the width doubles from each to the next, and
depth, heads and row length stay. The layers have 4 times the parameters, and training has 4 times
the tokens, in twice the steps of twice the rows. Claim S1 compares effects along it.

From `tiny` to `medium` the learning rate falls in proportion to the width, as muP scales Adam's (Yang
et al. 2022); twice the rows would raise it by sqrt(2) and twice the steps would lower it by as much,
so that the two cancel. `micro`, whose 250 steps are few, needs more than this rule says: of 0.003,
0.007, 0.01, 0.0175, 0.025 and 0.04, 0.0175 ended lowest in one seed.

The rungs have at least 20 tokens for each parameter, as compute-optimal training has (Hoffmann et al.
2022), heads of 32 and rows of 128 tokens or more. `micro`, `tiny` and `medium` have 2 tokens for
each parameter: what they compare is how training begins.

Pre-norm, RoPE, GELU, no biases, untied head; AdamW with beta2 0.98 and weight decay 0.1; cosine
schedule after a warm-up of a tenth of the steps; trained on the bytes of Python's standard library.
"""

from collections.abc import Mapping
from typing import Any

import ml_collections

from zoo import config
from zoo.lab.experiment import Tune, choose_size

SIZES: Mapping[str, Mapping[str, Any]] = {
    "micro": {
        "model.dim": 32,
        "model.num_layers": 4,
        "model.attention.num_heads": 4,
        "data.sequence_length": 64,
        "data.batch_size": 8,
        "training.steps": 250,
    },
    "tiny": {
        "model.dim": 64,
        "model.num_layers": 4,
        "model.attention.num_heads": 4,
        "data.sequence_length": 64,
        "data.batch_size": 16,
        "training.steps": 500,
    },
    "medium": {
        "model.dim": 128,
        "model.num_layers": 4,
        "model.attention.num_heads": 4,
        "data.sequence_length": 64,
        "data.batch_size": 32,
        "training.steps": 1000,
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
    "rung1": {
        "model.dim": 64,
        "model.num_layers": 4,
        "model.attention.num_heads": 2,
        "data.sequence_length": 128,
        "data.batch_size": 32,
        "training.steps": 1250,
    },
    "rung2": {
        "model.dim": 128,
        "model.num_layers": 4,
        "model.attention.num_heads": 4,
        "data.sequence_length": 128,
        "data.batch_size": 64,
        "training.steps": 2200,
    },
    "rung3": {
        "model.dim": 256,
        "model.num_layers": 4,
        "model.attention.num_heads": 8,
        "data.sequence_length": 256,
        "data.batch_size": 64,
        "training.steps": 4300,
    },
}
RATES = {
    "micro": 1.5e-2,
    "tiny": 5e-3,
    "medium": 2.5e-3,
    "small": 2e-3,
    "gpu": 1e-3,
    "rung1": 1e-2,
    "rung2": 6.25e-3,
    "rung3": 3e-3,
}
# Archived runs have this split of the text: another one here would be other runs.
SPLIT = "documents"
# Sizes about 4 times apart in parameters and in tokens, from the smallest on.
LADDER = ("micro", "tiny", "medium")
# Of a plain decoder, at every rung.
TOKENS_PER_PARAMETER = 20
RUNGS = ("rung1", "rung2", "rung3")


def decoder(size: str, changes: Mapping[str, Any] | None = None, split: str = SPLIT) -> ml_collections.ConfigDict:
    """Returns the config of a size with flat overrides.

    Args:
        size: one of `SIZES`.
        changes: flat overrides.
        split: `data.split` of the text.

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
            "data.split": split,
            **chosen,
            **(changes or {}),
        },
    )


def whole_patterns(size: str, layers: int) -> dict[str, Any]:
    """Returns {"model.num_layers": L} of a size, rounded up to a multiple of the layers of a pattern,
    so that each kind has its share of them.

    Raises:
        ConfigError: an unknown size.
    """
    return {"model.num_layers": -(-choose_size(size, SIZES)["model.num_layers"] // layers) * layers}


def rates(size: str, *factors: float) -> Tune:
    """Returns a bracket of learning rates around that of a size, by default 0.4, 1 and 2.5 times it.

    Each arm is tuned around the best of them (`zoo.lab.planning.tuning_search`).
    """
    return Tune("optimizer.learning_rate", tuple(RATES[size] * factor for factor in factors or (0.4, 1, 2.5)))


def sized_name(name: str, size: str) -> str:
    """Returns the name of an experiment in a size: `name` for tiny, else `name-size`."""
    return name if size == "tiny" else f"{name}-{size}"
