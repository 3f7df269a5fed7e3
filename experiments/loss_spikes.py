"""Claim N4: pre-norm shows loss spikes at high learning rates.

    zoo run experiments/loss_spikes.py
    zoo run experiments/loss_spikes.py:small

The decoder of `zoo.lab.sizes` with pre-norm and post-norm, at 1, 4 and 16 times the learning rate
of its size, reached over a warm-up of a tenth of the steps; `tiny` has 1,000 steps. Gradients are
not clipped, because clipping is a remedy for spikes. The measure is `spikes`: the number of updates
whose loss was more than 6 standard deviations above the mean of the 128 before. A diverged run
counts as infinitely many.

Stated beforehand, on the number of spikes in a run:

* Under pre-norm there are more at 16 times the rate than at the rate itself (superiority of the
  latter, margin 0).
* At 16 times the rate there are more under pre-norm than under post-norm (superiority of the
  latter, margin 0).

4 times the rate is shown but not judged.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import RATES, decoder, sized_name

LADDER = (1, 4, 16)


def get_experiment(size: str = "tiny") -> Experiment:
    """Pre- and post-norm, three rates."""
    base = decoder(size, {"training.steps": 1000} if size == "tiny" else {})
    rates = [RATES[size] * factor for factor in LADDER]

    def arm(norm: str, rate: float) -> Side:
        return Side({"norm": norm, "rate": str(rate)}, "measured/spikes")

    return Experiment(
        name=sized_name("loss_spikes", size),
        question="Does pre-norm show loss spikes at high learning rates?",
        # The loss is recorded at every step; statistics of layers are not needed.
        base=config.override(base, {"optimizer.clip_norm": 0.0, "training.dynamics_every": base.training.steps}),
        factors={
            "norm": levels("model.norm.placement", "pre", "post"),
            "rate": levels("optimizer.learning_rate", *rates),
        },
        claim=Claim("N4", "Pre-norm shows loss spikes at high learning rate", "lecture"),
        contrasts=(
            Contrast(
                "pre-norm has more at a high rate",
                a=arm("pre", rates[0]),
                b=arm("pre", rates[-1]),
                rule="superiority",
                margin=0.0,
                expected=f"under pre-norm there are fewer spikes at {rates[0]:g} than at {rates[-1]:g}",
            ),
            Contrast(
                "it has more than post-norm",
                a=arm("post", rates[-1]),
                b=arm("pre", rates[-1]),
                rule="superiority",
                margin=0.0,
                expected=f"at {rates[-1]:g} there are fewer spikes under post-norm than under pre-norm",
            ),
        ),
        size=size,
    )
