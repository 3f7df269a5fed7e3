"""Claim N1 (Xiong et al. 2020), the half about depth: post-norm without a learning rate warm-up fails
sooner the deeper the stack, pre-norm does not.

    zoo run experiments/norm_depth.py
    zoo run experiments/norm_depth.py:small
    zoo run experiments/norm_depth.py:rung1

`experiments/norm_placement.py` asks at one learning rate for all depths, at which 12 layers of
post-norm fail with warm-up too, so it cannot tell depth from a rate that is too high. Here each arm
(placement, warm-up, depth) has its best rate, fitted with separate seeds. As there, layers are narrow
and the rate is constant after a warm-up of a fifth of the steps.

| size | depths | D | initial values | tokens of a row, rows, steps |
| --- | --- | --- | --- | --- |
| tiny | 6, 12 | 48 | Xavier, uniform | 64, 16, 500 |
| small | 6, 24 | 256 | Xavier, uniform | 256, 32, 2,000 |
| rung1 | 12, 24 | 64 | normal, standard deviation 0.02 | 128, 32, 1,250 |

At `rung1` initial values have GPT-2's standard deviation, without its factor of 1 / sqrt(2 L) for
residual projections. In layers this narrow Xavier's are 4 to 6 times as large, so that a stack which
fails with them may train with these. Its 24 layers have 4 tokens for each parameter.

Stated beforehand, on `eval/loss` at the last step, each arm at its best rate:

* At the greater depth post-norm with warm-up ends more than 0.1 nats below post-norm without
  (superiority).
* At the greater depth pre-norm without warm-up ends at most 0.1 nats above pre-norm with it
  (non-inferiority).
* Without warm-up, post-norm ends more than 0.1 nats lower at the smaller depth than at the greater
  one (superiority): what it loses with depth.
* Without warm-up, pre-norm ends at most 0.1 nats higher at the greater depth than at the smaller one
  (non-inferiority).
"""

from zoo import config
from zoo.lab import sizes
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, Tune, choose_size, levels

MARGIN = 0.1
SIZES = {
    "tiny": {
        "model.dim": 48,
        "model.attention.num_heads": 4,
        "data.sequence_length": 64,
        "data.batch_size": 16,
        "training.steps": 500,
    },
    "small": {
        "model.dim": 256,
        "model.attention.num_heads": 8,
        "data.sequence_length": 256,
        "data.batch_size": 32,
        "training.steps": 2000,
    },
    "rung1": {**sizes.SIZES["rung1"], "model.init.kernel": "normal"},
}
DEPTHS = {"tiny": (6, 12), "small": (6, 24), "rung1": (12, 24)}
RATES = {
    "tiny": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
    "small": (3e-5, 1e-4, 3e-4, 1e-3, 3e-3),
    "rung1": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
}


def get_experiment(size: str = "tiny") -> Experiment:
    """Norm placement x warm-up x two depths, each at its best learning rate."""
    chosen = choose_size(size, SIZES)
    steps, (shallow, deep) = chosen["training.steps"], DEPTHS[size]
    base = config.override(
        config.default(),
        {
            "model.init.kernel": "xavier_uniform",
            "optimizer.beta2": 0.98,
            "schedule.kind": "constant",
            "training.eval_every": config.AUTO,
            "training.eval_batches": 100,
            **chosen,
            "model.num_layers": shallow,
        },
    )
    warmup = str(steps // 5)

    def arm(norm: str, steps: str, depth: int) -> Side:
        return Side({"norm": norm, "warm-up": steps, "depth": str(depth)})

    return Experiment(
        name=sizes.sized_name("norm_depth", size),
        question="Does post-norm without warm-up fail sooner with depth, at the best rate of each arm?",
        base=base,
        factors={
            "norm": levels("model.norm.placement", "pre", "post"),
            "warm-up": levels("schedule.warmup_steps", 0, steps // 5),
            "depth": levels("model.num_layers", shallow, deep),
        },
        allow=("parameters", "flops"),
        tune=Tune("optimizer.learning_rate", RATES[size]),
        claim=Claim(
            "N1",
            "Post-norm without warm-up fails sooner with depth; pre-norm trains without it",
            "Xiong et al. 2020, On Layer Normalization in the Transformer Architecture",
            floor="unigram",
            floor_reason="whether a model trains at all shows before it has learned contexts",
        ),
        contrasts=(
            Contrast(
                "deep post-norm needs warm-up",
                a=arm("post", warmup, deep),
                b=arm("post", "0", deep),
                rule="superiority",
                margin=MARGIN,
                expected=f"with warm-up, deep post-norm ends more than {MARGIN} nats below the same without",
            ),
            Contrast(
                "deep pre-norm does not",
                a=arm("pre", "0", deep),
                b=arm("pre", warmup, deep),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"without warm-up, deep pre-norm ends at most {MARGIN} nats above the same with it",
            ),
            Contrast(
                "depth hurts post-norm without warm-up",
                a=arm("post", "0", shallow),
                b=arm("post", "0", deep),
                rule="superiority",
                margin=MARGIN,
                expected=f"shallow post-norm without warm-up ends more than {MARGIN} nats below the deep one",
            ),
            Contrast(
                "depth does not hurt pre-norm without warm-up",
                a=arm("pre", "0", deep),
                b=arm("pre", "0", shallow),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"deep pre-norm without warm-up ends at most {MARGIN} nats above the shallow one",
            ),
        ),
        size=size,
    )
