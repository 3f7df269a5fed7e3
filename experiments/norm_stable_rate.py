"""Claim N7 (Ba et al. 2016; Xiong et al. 2020), the half about stability: with normalisation a model
trains at higher learning rates than without.

    zoo run experiments/norm_stable_rate.py
    zoo run experiments/norm_stable_rate.py:small

`experiments/norm_alone.py` compares losses at the best rate of each arm. Here the outcome is the
largest stable rate: the decoder of `zoo.lab.sizes` with LayerNorm, with RMSNorm and without
normalisation is trained at 1, 4, 16 and 64 times the rate of its size. A rate is stable for an arm
if it ends at most 0.5 nats above the same arm at the rate itself. Gradients are not clipped, because
clipping is another way to make a high rate stable. A run that diverges, or ends worse than a uniform
guess over the bytes (5.55 nats), counts as an infinite loss: without the second half, which was added
after the first runs, losses of 100, 192 and 57,218 nats had an interval that contained everything. The
table of the results has all rates.

Stated beforehand, on `eval/loss` at the last step:

* 4 times the rate is stable with LayerNorm (non-inferiority to the rate itself, margin 0.5).
* The same holds with RMSNorm.
* It is not stable without normalisation, which ends more than 0.5 nats lower at the rate itself
  (superiority).
"""

import math

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import RATES, decoder, sized_name

MARGIN = 0.5
LADDER = (1, 4, 16, 64)
# The loss of a uniform guess: 256 bytes and the end of a document.
UNIFORM = math.log(257)
# The rung that is judged.
JUDGED = 4
NORMS = {"LayerNorm": "layernorm", "RMSNorm": "rmsnorm", "none": "none"}


def get_experiment(size: str = "tiny") -> Experiment:
    """Three norms, four rates."""
    rates = {f"{factor} x": RATES[size] * factor for factor in LADDER}

    def arm(norm: str, factor: int) -> Side:
        return Side({"norm": norm, "rate": f"{factor} x"})

    return Experiment(
        name=sized_name("norm_stable_rate", size),
        question="Up to which learning rate does a model train, with normalisation and without?",
        base=decoder(size, {"optimizer.clip_norm": 0.0}),
        factors={
            "norm": {name: {"model.norm.kind": kind} for name, kind in NORMS.items()},
            "rate": {name: {"optimizer.learning_rate": rate} for name, rate in rates.items()},
        },
        claim=Claim(
            "N7",
            "Normalisation speeds convergence against none at all (the largest stable learning rate)",
            "Ba et al. 2016; Xiong et al. 2020",
            floor="unigram",
            floor_reason="whether training is stable at a rate shows before contexts are learned",
        ),
        contrasts=(
            *(
                Contrast(
                    f"{name} trains at a high rate",
                    a=arm(name, JUDGED),
                    b=arm(name, 1),
                    rule="non_inferiority",
                    margin=MARGIN,
                    expected=f"with {name}, {JUDGED} times the rate ends at most {MARGIN} nats above the rate itself",
                    diverged_above=UNIFORM,
                )
                for name in ("LayerNorm", "RMSNorm")
            ),
            Contrast(
                "without normalisation it does not",
                a=arm("none", 1),
                b=arm("none", JUDGED),
                rule="superiority",
                margin=MARGIN,
                expected=f"without normalisation, {JUDGED} times the rate ends more than {MARGIN} nats above the rate "
                "itself",
                diverged_above=UNIFORM,
            ),
        ),
        size=size,
    )
