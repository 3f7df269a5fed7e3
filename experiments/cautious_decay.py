"""Claim V21 (Chen et al. 2025): cautious weight decay ends below plain decoupled decay.

    zoo run experiments/cautious_decay.py
    zoo run experiments/cautious_decay.py:small

The decoder of `zoo.lab.sizes`, trained by AdamW with weight decay on all elements of its matrices,
or only where the update shrinks the element as well. That is about half of them, so each form gets
its best decay, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step: cautious decay ends more than 0.005 nats below
plain decay (superiority). Published: lower loss from 0.3 to 2 B parameters (Chen et al. 2025), 40 of
3,000 updates saved on a GPT-2 of 124 M parameters (modded-nanogpt).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, Tune, levels
from zoo.lab.sizes import decoder, sized_name

MARGIN = 0.005


def get_experiment(size: str = "tiny") -> Experiment:
    """Two forms of weight decay."""
    return Experiment(
        name=sized_name("cautious_decay", size),
        question="Does cautious weight decay end below plain decay, each at its best strength?",
        base=decoder(size),
        factors={"decay": levels("optimizer.weight_decay_form", "decoupled", "cautious")},
        tune=Tune("optimizer.weight_decay", (0.1, 0.4, 1.6)),
        claim=Claim(
            "V21",
            "Cautious weight decay ends below plain decoupled decay",
            "Chen et al. 2025",
            floor="unigram",
            floor_reason="the claim is about a rule of updating, and not about what the model has learned",
        ),
        contrasts=(
            Contrast(
                "cautious decay ends lower",
                a=Side({"decay": "cautious"}),
                b=Side({"decay": "decoupled"}),
                rule="superiority",
                margin=MARGIN,
                expected=f"cautious decay ends more than {MARGIN} nats below plain decay",
            ),
        ),
        size=size,
    )
