"""Claim F1 (Shazeer 2020): SwiGLU beats ReLU and GELU at matched parameters.

    zoo run experiments/feedforward.py
    zoo run experiments/feedforward.py:small

Five feed-forwards in the decoder of `zoo.lab.sizes`: ReLU, GELU, and the three gated ones, whose
hidden layers are 2/3 as wide, so that all have equally many weights (Shazeer 2020, section 3). Each
arm uses its best learning rate, fitted with separate seeds. The rungs, whose runs take a core
minutes to hours, train the three arms that the rules compare.

Stated beforehand, on `eval/loss` at the last step: SwiGLU ends below ReLU, and below GELU
(superiority, margin 0: the paper's own differences are 0.05 and 0.04 nats after 65,536 steps of
T5). GEGLU and ReGLU are shown, below the rungs, but not judged.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import RUNGS, decoder, rates, sized_name

JUDGED = ("relu", "gelu", "swiglu")


def get_experiment(size: str = "tiny") -> Experiment:
    """Five activations at equal parameters, three of them at rungs."""
    kinds = JUDGED if size in RUNGS else (*JUDGED, "geglu", "reglu")
    return Experiment(
        name=sized_name("feedforward", size),
        question="Does a gated feed-forward learn more than a plain one with as many parameters?",
        base=config.override(decoder(size), {"model.ffn.match_parameters": True}),
        factors={"feed-forward": levels("model.ffn.kind", *kinds)},
        tune=rates(size),
        claim=Claim(
            "F1",
            "SwiGLU beats ReLU and GELU at matched parameters",
            "Shazeer 2020, GLU Variants Improve Transformer, Table 1",
        ),
        contrasts=tuple(
            Contrast(
                f"SwiGLU beats {name}",
                a=Side({"feed-forward": "swiglu"}),
                b=Side({"feed-forward": other}),
                rule="superiority",
                margin=0.0,
                expected=f"SwiGLU ends below {name}",
            )
            for other, name in (("relu", "ReLU"), ("gelu", "GELU"))
        ),
        size=size,
    )
