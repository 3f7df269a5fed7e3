"""Claim N6, the half about domains: BatchNorm suffers at a shift between the texts of training and
evaluation, LayerNorm does not.

    zoo run experiments/batch_norm_domain.py
    zoo run experiments/batch_norm_domain.py:small

An encoder of the sizes of `zoo.lab.sizes` that predicts masked tokens learns from prose, the
docstrings of Python's standard library, and is then also scored on held-out code of that library.
Both texts are on every machine, about the same things and of the same bytes, so the shift is one
of style. BatchNorm normalises the code with the running statistics of the prose. Each arm uses its
best learning rate, fitted by its loss on prose with separate seeds.

Every model has a higher loss on a kind of text that it was not trained on. The outcome is therefore
the increase, `measured/code_gap`: the loss on code minus the loss on prose, at the last step. The
measure is in `measures/code_gap.py`.

Stated beforehand: LayerNorm's gap is more than 0.05 nats below BatchNorm's (superiority), the margin
of `batch_norm.py`.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.05
GAP = "measured/code_gap"


def get_experiment(size: str = "tiny") -> Experiment:
    """Two norms, trained on prose and scored on code."""
    return Experiment(
        name=sized_name("batch_norm_domain", size),
        question="Does BatchNorm lose more than LayerNorm on another kind of text than it was trained on?",
        base=config.override(
            decoder(size),
            {"model.architecture": "encoder", "objective.kind": "masked", "data.source": "stdlib:docstrings"},
        ),
        factors={"norm": levels("model.norm.kind", "batchnorm", "layernorm")},
        tune=rates(size, 0.16, 0.4, 1, 2.5),
        claim=Claim("N6", "BatchNorm suffers at a train/test domain shift; LayerNorm does not", "lecture"),
        contrasts=(
            Contrast(
                "a shift hurts BatchNorm more",
                a=Side({"norm": "layernorm"}, GAP),
                b=Side({"norm": "batchnorm"}, GAP),
                rule="superiority",
                margin=MARGIN,
                expected=f"LayerNorm's gap is more than {MARGIN} nats below BatchNorm's",
            ),
        ),
        size=size,
    )
