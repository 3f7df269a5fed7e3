"""Claim N2 (Xiong et al. 2020; Liu et al. 2020): at modest depth, with warm-up, pre- and post-norm
end at similar loss.

    zoo run experiments/norm_placement_tuned.py
    zoo run experiments/norm_placement_tuned.py:small

The decoder of `zoo.lab.sizes` with pre-norm and post-norm, both with a warm-up of a tenth of the
steps, each at its best learning rate, fitted with separate seeds. Post-norm has one norm fewer, at
the end.

Stated beforehand, on `eval/loss` at the last step: they end within 0.05 nats of each other
(equivalence), half of the margin that separates arms that train from arms that do not in
`norm_placement.py`.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.05


def get_experiment(size: str = "tiny") -> Experiment:
    """Pre- and post-norm."""
    return Experiment(
        name=sized_name("norm_placement_tuned", size),
        question="Do pre- and post-norm end alike where both have warm-up and their own learning rate?",
        base=decoder(size),
        factors={"norm": levels("model.norm.placement", "pre", "post")},
        tune=rates(size, 0.1, 0.4, 1, 2.5),
        claim=Claim(
            "N2",
            "At modest depth, with warm-up, pre- and post-norm end at similar loss",
            "Xiong et al. 2020, section 4; Liu et al. 2020, Understanding the Difficulty of Training Transformers",
        ),
        contrasts=(
            Contrast(
                "they end alike",
                a=Side({"norm": "pre"}),
                b=Side({"norm": "post"}),
                rule="equivalence",
                margin=MARGIN,
                expected=f"they end within {MARGIN} nats of each other",
            ),
        ),
        size=size,
    )
