"""Claim A13 (Henry et al. 2020; Dehghani et al. 2023): normalised queries and keys keep training
stable at high learning rates, and cost nothing at usual ones.

    zoo run experiments/qk_norm.py
    zoo run experiments/qk_norm.py:small

The decoder of `zoo.lab.sizes` with and without an RMSNorm of each head's queries and keys, at 1, 4
and 16 times the learning rate of the size. The rate is a factor here, so it is not tuned.

Stated beforehand, on `eval/loss` at the last step:

* At 16 times the rate, the normed arm ends more than 0.05 nats below the other (superiority).
* At the usual rate, it ends at most 0.02 nats above the other (non-inferiority).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import RATES, decoder, sized_name

GAIN, COST = 0.05, 0.02


def get_experiment(size: str = "tiny") -> Experiment:
    """With and without QK-norm at three learning rates."""
    usual, high = RATES[size], 16 * RATES[size]

    def arm(norm: str, rate: float) -> Side:
        return Side({"qk-norm": norm, "rate": f"{rate:g}"})

    return Experiment(
        name=sized_name("qk_norm", size),
        question="Does QK-norm keep training stable at high learning rates?",
        base=decoder(size),
        factors={
            "qk-norm": levels("model.attention.qk_norm", "none", "head"),
            "rate": levels("optimizer.learning_rate", usual, 4 * usual, high),
        },
        allow=("parameters",),
        claim=Claim(
            "A13",
            "QK-norm keeps training stable at high learning rates",
            "Henry et al. 2020; Dehghani et al. 2023, Scaling Vision Transformers to 22 Billion Parameters",
            floor="unigram",
            floor_reason="whether training is stable at a rate shows before contexts are learned",
        ),
        contrasts=(
            Contrast(
                "it helps at a high rate",
                a=arm("head", high),
                b=arm("none", high),
                rule="superiority",
                margin=GAIN,
                expected=f"at 16 times the rate QK-norm ends more than {GAIN} nats lower",
            ),
            Contrast(
                "it costs nothing at the usual rate",
                a=arm("head", usual),
                b=arm("none", usual),
                rule="non_inferiority",
                margin=COST,
                expected=f"at the usual rate QK-norm ends at most {COST} nats higher",
            ),
        ),
        size=size,
    )
