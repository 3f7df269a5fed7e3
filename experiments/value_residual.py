"""Claim V6 (Zhou et al. 2024; Jordan et al. 2024): the values of the first layer, and its input, help
the later ones.

    zoo run experiments/value_residual.py
    zoo run experiments/value_residual.py:small

The pre-norm decoder of `zoo.lab.sizes`, the same with values mixed half and half with those of the
first layer, and the same with residual scalars and the x0 shortcut, all trained at the optimizer's
one rate. Each arm uses its best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step: each of the two ends below the plain decoder
(superiority). Published: 0.0123 nats for a fixed mix of values and 0.0093 for the shortcut
(modded-nanogpt); for the shortcut, less in deeper models (nanochat).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name

ADDED = {"values of the first layer": {"model.attention.kind": "value_residual"}}
ADDED["x0 shortcut"] = {"model.norm.placement": "x0_shortcut"}


def get_experiment(size: str = "tiny") -> Experiment:
    """A plain decoder, value residual, and x0 shortcut."""
    claim = "A value residual and the x0 shortcut each lower the loss"
    return Experiment(
        name=sized_name("value_residual", size),
        question="Do a value residual and the x0 shortcut each lower the loss?",
        base=decoder(size),
        factors={"added": {"nothing": {}, **ADDED}},
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        allow=("parameters",),
        claim=Claim("V6", claim, "Zhou et al. 2024; Jordan et al. 2024"),
        contrasts=tuple(
            Contrast(
                f"{name} helps",
                a=Side({"added": name}),
                b=Side({"added": "nothing"}),
                rule="superiority",
                margin=0.0,
                expected=f"{name} ends below the plain decoder",
            )
            for name in ADDED
        ),
        size=size,
    )
