"""Claim V20 (Yang et al. 2022): under muP the best learning rate of a narrow model is that of wider
ones too; in the standard parametrization it falls with the width.

    zoo run experiments/learning_rate_transfer.py
    zoo run experiments/learning_rate_transfer.py:small

The decoder of `zoo.lab.sizes` at half its width, at its width and at twice its width, with more heads
of the same width, in the standard parametrization and under muP with the narrowest as the base. Each
is trained with R, 2.5 times the rate of its size, with R / 4 and with 4 R. In `tiny` it has 2 layers
and 300 steps. AdamW's best rates at twice the narrowest width were between R / 2.5 and R (tuning of
`muon.py` and `heads.py`).

Stated beforehand, on `eval/loss` at the last step (superiority, margin 0):

* At the narrowest width R is the best of the three: it ends below R / 4 and below 4 R.
* Under muP this is so at the widest too: the best rate stays within one step of the grid.
* In the standard parametrization R / 4 ends below R at the widest.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import RATES, SIZES, decoder, sized_name

SMALLER = {"tiny": {"model.num_layers": 2, "training.steps": 300}}
LOW, MIDDLE, HIGH = "R/4", "R", "4R"


def get_experiment(size: str = "tiny") -> Experiment:
    """Width x parametrization x rate."""
    base = decoder(size, SMALLER.get(size))
    dim, heads = SIZES[size]["model.dim"], SIZES[size]["model.attention.num_heads"]
    widths = {
        str(dim * factor // 2): {"model.dim": dim * factor // 2, "model.attention.num_heads": heads * factor // 2}
        for factor in (1, 2, 4)
    }
    narrowest, _, widest = widths
    rate = 2.5 * RATES[size]

    def lower(name: str, width: str, parametrization: str, better: str, worse: str) -> Contrast:
        a, b = (Side({"width": width, "parametrization": parametrization, "rate": rate}) for rate in (better, worse))
        where = f"at width {width} in the {parametrization} parametrization"
        return Contrast(name, a, b, "superiority", 0.0, f"{where} {better} ends below {worse}")

    return Experiment(
        name=sized_name("learning_rate_transfer", size),
        question="Does the best learning rate stay where it is as the model becomes wider?",
        base=base,
        factors={
            "width": widths,
            "parametrization": {
                "standard": {"model.parametrization": "standard", "model.base_dim": 0},
                "mup": {"model.parametrization": "mup", "model.base_dim": dim // 2},
            },
            "rate": {
                name: {"optimizer.learning_rate": rate * factor}
                for name, factor in ((LOW, 0.25), (MIDDLE, 1), (HIGH, 4))
            },
        },
        allow=("parameters", "flops"),
        claim=Claim(
            "V20",
            "Under muP the best learning rate stays where it is as the model becomes wider",
            "Yang et al. 2022, Tensor Programs V, section 1",
            floor="unigram",
            floor_reason="the claim is about which rate is the best, and not about what the model has learned with it",
        ),
        contrasts=(
            lower("narrowest: R below R/4", narrowest, "standard", MIDDLE, LOW),
            lower("narrowest: R below 4R", narrowest, "standard", MIDDLE, HIGH),
            lower("widest, muP: R below R/4", widest, "mup", MIDDLE, LOW),
            lower("widest, muP: R below 4R", widest, "mup", MIDDLE, HIGH),
            lower("widest, standard: R/4 below R", widest, "standard", LOW, MIDDLE),
        ),
        size=size,
    )
