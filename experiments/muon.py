"""Claim V1 (Jordan 2024; Liu et al. 2025): Muon ends below AdamW after the same number of steps.

    zoo run experiments/muon.py
    zoo run experiments/muon.py:small

The decoder of `zoo.lab.sizes`, trained by AdamW, and by Muon: the matrices of its layers by
orthogonalised momentum at the scale that keeps AdamW's learning rates, everything else by AdamW.
Each arm uses its best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step: Muon ends more than 0.02 nats below AdamW
(superiority). Published at this step count or above: 0.06 nats for GPT-2 124M (Jordan 2024), a
speed-up of 1.4 at 0.1 B parameters that shrinks to 1.1 at 1.2 B (arXiv 2509.02046).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02


def get_experiment(size: str = "tiny") -> Experiment:
    """AdamW and Muon."""
    return Experiment(
        name=sized_name("muon", size),
        question="Does Muon end below AdamW after the same number of steps?",
        base=decoder(size),
        factors={"optimizer": levels("optimizer.kind", "adamw", "muon")},
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim(
            "V1",
            "Muon ends below AdamW after the same number of steps",
            "Jordan 2024; Liu et al. 2025",
            floor="unigram",
            floor_reason="the claim is about how fast a loss falls, wherever on its way it is",
        ),
        contrasts=(
            Contrast(
                "Muon ends lower",
                a=Side({"optimizer": "muon"}),
                b=Side({"optimizer": "adamw"}),
                rule="superiority",
                margin=MARGIN,
                expected=f"Muon ends more than {MARGIN} nats below AdamW",
            ),
        ),
        size=size,
    )
