"""Claim N3: the residual stream's scale grows with depth under pre-norm and is bounded under
post-norm.

    zoo run experiments/residual_stream.py
    zoo run experiments/residual_stream.py:small

The decoder of `zoo.lab.sizes`, shallow and deep, with pre-norm and post-norm, all at 0.4 times the
learning rate of its size, at which a deep post-norm stack hardly trains. The measure is
`residual_growth`: the root mean square of the stream after the last layer over that after the
first, on the batch of the first update with the initial values, and on that of the last update.

Stated beforehand, at the initial values and after training alike:

* Under pre-norm the deep stack's growth is more than 0.5 above the shallow one's (superiority of
  the latter). Xiong et al. 2020 (lemma 2) have E|x|^2 at the start between (1 + l/2) D and (1 + 3
  l/2) D after l layers, so the growth is at least 2.2 with 12 layers and 1.4 with 4.
* Under post-norm the deep stack's growth is at most 0.5 above the shallow one's (non-inferiority).
* The deep post-norm stack grows more than 0.5 less than the deep pre-norm stack (superiority).
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import LADDER, RATES, RUNGS, decoder, sized_name

MARGIN = 0.5
DEPTHS = {**dict.fromkeys((*LADDER, *RUNGS), (4, 12)), "small": (6, 24), "gpu": (12, 48)}
WHEN = {"at the start": "measured/residual_growth@initial", "after training": "measured/residual_growth"}


def get_experiment(size: str = "tiny") -> Experiment:
    """Pre- and post-norm, shallow and deep."""
    base = decoder(size)
    shallow, deep = DEPTHS[size]

    def arm(norm: str, depth: int, metric: str) -> Side:
        return Side({"norm": norm, "depth": str(depth)}, metric)

    return Experiment(
        name=sized_name("residual_stream", size),
        question="Does the residual stream grow with depth under pre-norm, and not under post-norm?",
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
            "N3",
            "The residual stream's scale grows with depth under pre-norm and is bounded under post-norm",
            "Xiong et al. 2020, On Layer Normalization in the Transformer Architecture, lemma 2",
        ),
        contrasts=tuple(
            contrast
            for when, metric in WHEN.items()
            for contrast in (
                Contrast(
                    f"pre-norm grows with depth {when}",
                    a=arm("pre", shallow, metric),
                    b=arm("pre", deep, metric),
                    rule="superiority",
                    margin=MARGIN,
                    expected=f"{when}, {shallow} layers under pre-norm grow by more than {MARGIN} less than {deep}",
                ),
                Contrast(
                    f"post-norm does not {when}",
                    a=arm("post", deep, metric),
                    b=arm("post", shallow, metric),
                    rule="non_inferiority",
                    margin=MARGIN,
                    expected=f"{when}, {deep} layers under post-norm grow by at most {MARGIN} more than {shallow}",
                ),
                Contrast(
                    f"post-norm grows less {when}",
                    a=arm("post", deep, metric),
                    b=arm("pre", deep, metric),
                    rule="superiority",
                    margin=MARGIN,
                    expected=f"{when}, {deep} layers grow by more than {MARGIN} less under post-norm",
                ),
            )
        ),
        size=size,
    )
