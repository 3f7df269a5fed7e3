"""Claim N1 (Xiong et al. 2020): post-norm needs a learning rate warm-up, pre-norm trains without one.

    zoo run experiments/norm_placement.py
    zoo run experiments/norm_placement.py:full

The question is that of Xiong et al. 2020, sections 3 and 4, asked of a decoder on the text of Python's own standard library:
six narrow layers, Xavier initial values and Adam with beta2 = 0.98 at a constant rate of 5e-3, as high as a post-norm
Transformer is hurt by when it meets it in its first steps. Both arms with warm-up reach that rate linearly over 100 of 500 steps.

Stated beforehand, on the validation loss at the last step, in nats per byte:

* Post-norm with warm-up ends more than 0.1 below post-norm without (superiority). 0.1 nats is about what separated the arms
  that train in trials of this setting (training loss 2.06 to 2.15), and small against the loss of the arm that does not (3.15).
* Pre-norm without warm-up ends at most 0.1 above pre-norm with it (non-inferiority). The margin is the same, so that "needs"
  and "does not need" are separated by one number.

`full` adds depth {3, 6, 12} at the same width and budget. Xiong et al. speak of depth 6 and more, so post-norm's need is stated
at 6 and 12 layers only; at 3 it is shown, not judged.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Outcome, choose_size, levels

MARGIN = 0.1
SIZES = {"tiny": {}, "full": levels("model.num_layers", 3, 6, 12)}


def get_experiment(size: str = "tiny") -> Experiment:
    """Norm placement x warm-up; `full` also x depth."""
    depths = choose_size(size, SIZES)
    base = config.override(config.default(), {
        "model.dim": 48,
        "model.num_layers": 6,
        "model.attention.num_heads": 4,
        "model.init.kernel": "xavier_uniform",
        "data.sequence_length": 64,
        "data.batch_size": 16,
        "optimizer.learning_rate": 5e-3,
        "optimizer.beta2": 0.98,
        "schedule.kind": "constant",
        "training.steps": 500,
        "training.eval_every": 100,
        "training.eval_batches": 100,
        "training.checkpoint_every": 250,
    })
    contrasts = []
    for depth in depths or ("",):
        at_depth = {"depth": depth} if depth else {}
        at = f" at depth {depth}" if depth else ""

        def arm(norm: str, warmup: str, at_depth: dict[str, str] = at_depth) -> Outcome:
            return Outcome({"norm": norm, "warm-up": warmup, **at_depth})

        if depth != "3":
            contrasts.append(Contrast(
                f"post-norm needs warm-up{at}", a=arm("post", "100"), b=arm("post", "0"), rule="superiority", margin=MARGIN,
                expected=f"post-norm{at} with warm-up ends more than {MARGIN} nats below post-norm without"))
        contrasts.append(Contrast(
            f"pre-norm does not need warm-up{at}", a=arm("pre", "0"), b=arm("pre", "100"), rule="non_inferiority", margin=MARGIN,
            expected=f"pre-norm{at} without warm-up ends at most {MARGIN} nats above pre-norm with it"))
    return Experiment(
        name="norm_placement" if size == "tiny" else f"norm_placement-{size}",
        question="Does post-norm need a learning rate warm-up, and does pre-norm train without one?",
        base=base,
        factors={
            "norm": levels("model.norm.placement", "pre", "post"),
            "warm-up": levels("schedule.warmup_steps", 0, 100),
            **({"depth": depths} if depths else {}),
        },
        seeds=(0, 1, 2),
        # Depth is there to be looked at; the contrasts compare arms of one depth.
        allow=("parameters", "flops") if depths else (),
        claim=Claim("N1", "Post-norm needs warm-up; pre-norm trains without it",
                    "Xiong et al. 2020, On Layer Normalization in the Transformer Architecture"),
        contrasts=tuple(contrasts),
        size=size,
    )
