"""Claim N9 (Xiong et al. 2020): norms lie on the gradient's path; post-norm shrinks gradients
towards the input, pre-norm keeps them.

    zoo run experiments/gradient_by_layer.py
    zoo run experiments/gradient_by_layer.py:small

The arms of `residual_stream.py`: the decoder of `zoo.lab.sizes`, shallow and deep, with pre-norm
and post-norm, all at 0.4 times the learning rate of its size. The measure is `gradient_kept`: the
norm of the gradient of the first layer's attention and feed-forward over that of the last layer's,
at the first and at the last update, before clipping.

Stated beforehand, at the initial values and after training alike:

* In deep stacks, the first layer keeps more than 0.5 more of the last layer's gradient under
  pre-norm than under post-norm (superiority).
* Under post-norm the deep stack keeps more than 0.1 less than the shallow one (superiority of the
  latter). Xiong et al. (theorem 1 and section 3.3) expect it to shrink by sqrt(2) a layer at the
  start, which leaves 0.35 of 4 layers and 0.02 of 12.
* Under pre-norm the deep stack keeps at most 0.5 less than the shallow one (non-inferiority).
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import LADDER, RATES, RUNGS, decoder, sized_name

MARGIN, SHRINKS = 0.5, 0.1
DEPTHS = {**dict.fromkeys((*LADDER, *RUNGS), (4, 12)), "small": (6, 24), "gpu": (12, 48)}
WHEN = {"at the start": "measured/gradient_kept@initial", "after training": "measured/gradient_kept"}


def get_experiment(size: str = "tiny") -> Experiment:
    """Pre- and post-norm, shallow and deep."""
    base = decoder(size)
    shallow, deep = DEPTHS[size]

    def arm(norm: str, depth: int, metric: str) -> Side:
        return Side({"norm": norm, "depth": str(depth)}, metric)

    return Experiment(
        name=sized_name("gradient_by_layer", size),
        question="Do gradients shrink towards the input under post-norm, and not under pre-norm?",
        base=config.override(
            base, {"optimizer.learning_rate": 0.4 * RATES[size], "training.dynamics_every": base.training.steps // 25}
        ),
        factors={
            "norm": levels("model.norm.placement", "pre", "post"),
            "depth": levels("model.num_layers", shallow, deep),
        },
        # The contrasts compare depths.
        allow=("parameters", "flops"),
        claim=Claim(
            "N9",
            "Norms lie on the gradient's path: post-norm shrinks gradients towards the input, pre-norm keeps them",
            "Xiong et al. 2020, On Layer Normalization in the Transformer Architecture, section 3.3",
        ),
        contrasts=tuple(
            contrast
            for when, metric in WHEN.items()
            for contrast in (
                Contrast(
                    f"pre-norm keeps more {when}",
                    a=arm("pre", deep, metric),
                    b=arm("post", deep, metric),
                    rule="superiority",
                    margin=MARGIN,
                    expected=f"{when}, {deep} layers keep more than {MARGIN} more under pre-norm than under post-norm",
                ),
                Contrast(
                    f"post-norm shrinks with depth {when}",
                    a=arm("post", shallow, metric),
                    b=arm("post", deep, metric),
                    rule="superiority",
                    margin=SHRINKS,
                    expected=f"{when}, {shallow} layers under post-norm keep more than {SHRINKS} more than {deep}",
                ),
                Contrast(
                    f"pre-norm does not {when}",
                    a=arm("pre", deep, metric),
                    b=arm("pre", shallow, metric),
                    rule="non_inferiority",
                    margin=MARGIN,
                    expected=f"{when}, {deep} layers under pre-norm keep at most {MARGIN} less than {shallow}",
                ),
            )
        ),
        size=size,
    )
