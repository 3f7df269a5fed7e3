"""Claim V22 (Izmailov et al. 2018; Hägele et al. 2024): a moving average of the weights helps at a
constant learning rate and not at one that decays to 0.

    zoo run experiments/weight_average.py
    zoo run experiments/weight_average.py:small

The decoder of `zoo.lab.sizes` with a constant rate and with a cosine that ends at 0, each at its
best rate, fitted with separate seeds. Every run also keeps an average of its weights over about the
last fifth of its updates, which does not change its training, and scores both.

Stated beforehand, at the last step:

* At the constant rate, the average (`eval/ema/loss`) ends more than 0.02 nats below the weights
  themselves (`eval/loss`; superiority).
* At the decaying rate, the weights themselves end below the average (superiority, margin 0), because
  it still holds weights of larger rates.

Published: averages nearly reach what a decay reaches, without one (Hägele et al. 2024, section 4);
with a decay to 0 nanochat found no gain.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import SIZES, decoder, rates, sized_name

MARGIN = 0.02


def get_experiment(size: str = "tiny") -> Experiment:
    """Schedules, each scored with and without the average."""
    steps = SIZES[size]["training.steps"] if size in SIZES else 0
    averaged, plain = "eval/ema/loss", "eval/loss"
    return Experiment(
        name=sized_name("weight_average", size),
        question="Does an average of the weights help at a constant rate, and at a decaying one?",
        base=decoder(size, {"optimizer.ema_steps": steps // 5}),
        factors={"rate": levels("schedule.kind", "constant", "cosine")},
        tune=rates(size, 0.16, 0.4, 1, 2.5),
        claim=Claim(
            "V22",
            "A moving average of the weights helps at a constant learning rate and not at one that decays to 0",
            "Izmailov et al. 2018; Hägele et al. 2024, section 4",
            floor="unigram",
            floor_reason="the claim is about the noise of the last updates, which every training has",
        ),
        contrasts=(
            Contrast(
                "at a constant rate the average ends lower",
                a=Side({"rate": "constant"}, averaged),
                b=Side({"rate": "constant"}, plain),
                rule="superiority",
                margin=MARGIN,
                expected=f"the average ends more than {MARGIN} nats below the weights",
            ),
            Contrast(
                "at a decaying rate it does not",
                a=Side({"rate": "cosine"}, plain),
                b=Side({"rate": "cosine"}, averaged),
                rule="superiority",
                margin=0.0,
                expected="the weights end below their average",
            ),
        ),
        size=size,
    )
