"""Claim N1 (Xiong et al. 2020): post-norm needs a learning rate warm-up, pre-norm trains without
one.

    zoo run experiments/norm_placement.py:quick
    zoo run experiments/norm_placement.py
    zoo run experiments/norm_placement.py:gpu

The question of Xiong et al. 2020, sections 3 and 4, for a decoder on the bytes of Python's standard
library: narrow layers, Xavier initialisation, and Adam with beta2 = 0.98 at a constant learning
rate that is high enough to hurt a post-norm Transformer in its first steps. Both arms with warm-up
reach that rate linearly over a fifth of the steps.

| size | depths | D | rate | tokens of a row, rows, steps |
| --- | --- | --- | --- | --- |
| quick | 6 | 48 | 5e-3 | 64, 16, 250 |
| tiny | 6, 12 | 48 | 5e-3 | 64, 16, 500 |
| small | 6, 12, 24 | 256 | 1e-3 | 256, 32, 2,000 |
| gpu | 6, 12, 24, 48 | 256 | 1e-3 | 256, 32, 2,000, bfloat16 |

1e-3 is the rate at which Xiong et al. find it (figure 2); the narrower layers of `tiny` need a
higher one.

Stated beforehand for every depth, on the validation loss at the last step, in nats per byte:

* Post-norm with warm-up ends more than 0.1 below post-norm without (superiority). In trials of
  500 steps at depth 6, 0.1 nats is about the spread of the arms that train (training loss 2.06 to
  2.15), and small compared with the arm that does not (3.15).
* Pre-norm without warm-up ends at most 0.1 above pre-norm with it (non-inferiority). The margin is
  the same, so that "needs" and "does not need" are separated by one number.

The failure of post-norm at greater depth is shown, not judged: at a rate that is too high for 6
layers, deeper stacks cannot fail more. `experiments/norm_depth.py` judges it, at the best rate of
each arm.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, choose_size, levels
from zoo.lab.sizes import sized_name

MARGIN = 0.1
NARROW = {
    "model.dim": 48,
    "model.attention.num_heads": 4,
    "data.sequence_length": 64,
    "data.batch_size": 16,
    "training.steps": 500,
    "optimizer.learning_rate": 5e-3,
}
WIDE = {
    "model.dim": 256,
    "model.attention.num_heads": 8,
    "data.sequence_length": 256,
    "data.batch_size": 32,
    "training.steps": 2000,
    "optimizer.learning_rate": 1e-3,
}
SIZES = {
    "quick": {**NARROW, "training.steps": 250, "training.eval_batches": 40},
    "tiny": NARROW,
    "small": WIDE,
    "gpu": {**WIDE, "model.dtype": "bfloat16", "model.scan_layers": True},
}
DEPTHS = {"quick": (6,), "tiny": (6, 12), "small": (6, 12, 24), "gpu": (6, 12, 24, 48)}


def get_experiment(size: str = "tiny") -> Experiment:
    """Norm placement x warm-up x depth; `quick` has one depth."""
    chosen = choose_size(size, SIZES)
    steps, depths = chosen["training.steps"], DEPTHS[size]
    base = config.override(
        config.default(),
        {
            "model.num_layers": depths[0],
            "model.init.kernel": "xavier_uniform",
            "optimizer.beta2": 0.98,
            "schedule.kind": "constant",
            "training.eval_every": config.AUTO,
            "training.eval_batches": 100,
            "training.checkpoint_every": steps // 2,
            **chosen,
        },
    )
    # A single depth is not a factor.
    several = len(depths) > 1
    warmup = str(steps // 5)
    contrasts = []
    for depth in depths:
        at = f" at depth {depth}" if several else ""

        def arm(norm: str, steps: str, depth: int = depth) -> Side:
            return Side({"norm": norm, "warm-up": steps, **({"depth": str(depth)} if several else {})})

        contrasts += [
            Contrast(
                f"post-norm needs warm-up{at}",
                a=arm("post", warmup),
                b=arm("post", "0"),
                rule="superiority",
                margin=MARGIN,
                expected=f"post-norm{at} with warm-up ends more than {MARGIN} nats below post-norm without",
            ),
            Contrast(
                f"pre-norm does not need warm-up{at}",
                a=arm("pre", "0"),
                b=arm("pre", warmup),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"pre-norm{at} without warm-up ends at most {MARGIN} nats above pre-norm with it",
            ),
        ]
    return Experiment(
        name=sized_name("norm_placement", size),
        question="Does post-norm need a learning rate warm-up, and does pre-norm train without one?",
        base=base,
        factors={
            "norm": levels("model.norm.placement", "pre", "post"),
            "warm-up": levels("schedule.warmup_steps", 0, steps // 5),
            **({"depth": levels("model.num_layers", *depths)} if several else {}),
        },
        seeds=(0, 1, 2),
        # Depth is only shown; the contrasts compare arms of one depth.
        allow=("parameters", "flops") if several else (),
        claim=Claim(
            "N1",
            "Post-norm needs warm-up; pre-norm trains without it",
            "Xiong et al. 2020, On Layer Normalization in the Transformer Architecture",
            floor="unigram",
            floor_reason="whether a model trains at all shows before it has learned contexts",
        ),
        contrasts=tuple(contrasts),
        size=size,
    )
