"""Claim V27 (Zhou et al. 2024; Karpathy 2025): a value residual and the x0 shortcut lower the
loss at every depth.

    zoo run experiments/value_residual_depth.py
    zoo run experiments/value_residual_depth.py:small

The three arms of `value_residual.py` with 2, with 4 and with 8 layers, and otherwise of the size
that they have there. Each arm uses its best learning rate, fitted with separate seeds.

Depth 4 has the runs of `value_residual.py` (V6), so the two experiments are one result there.

Stated beforehand, on `eval/loss` at the last step (superiority, margin 0):

* At each of the three depths the value residual ends below the plain decoder.
* At each of them the x0 shortcut ends below it too.

Published: the shortcut gains 0.0103 bits per byte with 8 layers, 0.0077 with 12, 0.0057 with 16 and
0.0039 with 20, in wider models the deeper they are (nanochat). No rule judges this slope: the page of
results shows the difference at each depth.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

ADDED = {
    "values of the first layer": {"model.attention.kind": "value_residual"},
    "x0 shortcut": {"model.norm.placement": "x0_shortcut"},
}
DEPTHS = (2, 4, 8)


def get_experiment(size: str = "tiny") -> Experiment:
    """A plain decoder, value residual, and x0 shortcut, at three depths."""
    return Experiment(
        name=sized_name("value_residual_depth", size),
        question="Do a value residual and the x0 shortcut each lower the loss at every depth?",
        base=decoder(size),
        factors={"added": {"nothing": {}, **ADDED}, "depth": levels("model.num_layers", *DEPTHS)},
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        # Arms are compared at equal depth.
        allow=("parameters", "flops"),
        claim=Claim(
            "V27",
            "A value residual and the x0 shortcut each lower the loss at every depth",
            "Zhou et al. 2024; Karpathy 2025 (nanochat)",
        ),
        contrasts=tuple(
            Contrast(
                f"{name} helps at depth {depth}",
                a=Side({"added": name, "depth": str(depth)}),
                b=Side({"added": "nothing", "depth": str(depth)}),
                rule="superiority",
                margin=0.0,
                expected=f"of {depth} layers, {name} ends below the plain decoder",
            )
            for name in ADDED
            for depth in DEPTHS
        ),
        size=size,
    )
