"""Claim A15 (Allen-Zhu 2025; So et al. 2021): short convolutions over the tokens lower the loss and
can replace position encodings.

    zoo run experiments/canon.py
    zoo run experiments/canon.py:small

The decoder of `zoo.lab.sizes` with RoPE and without any positions, each without convolutions and
with Canon layers of four tokens before attention, on queries, keys and values, and before the
feed-forward layer. Each arm uses its best learning rate, fitted with separate seeds. The
convolutions add 2 % of the parameters.

Stated beforehand, on `eval/loss` at the last step:

* With RoPE, Canon layers end lower than none (superiority, margin 0).
* Without positions, Canon layers end at most 0.02 nats above RoPE without them (non-inferiority).

The published results are from synthetic tasks of reasoning: the depth that can be solved doubles, and
a model without positions matches RoPE. Here the models are trained on text.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02


def get_experiment(size: str = "tiny") -> Experiment:
    """Canon layers or none, with RoPE and without positions."""

    def arm(convolution: str, position: str) -> Side:
        return Side({"convolution": convolution, "positions": position})

    return Experiment(
        name=sized_name("canon", size),
        question="Do Canon layers lower the loss, and can they replace position encodings?",
        base=decoder(size),
        factors={
            "convolution": levels("model.convolution.kind", "none", "canon"),
            "positions": levels("model.position.kind", "rope", "none"),
        },
        allow=("parameters", "flops"),
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim(
            "A15",
            "Canon layers lower the loss and can replace position encodings",
            "Allen-Zhu 2025, Physics of Language Models, part 4.1",
        ),
        contrasts=(
            Contrast(
                "lower with RoPE",
                a=arm("canon", "rope"),
                b=arm("none", "rope"),
                rule="superiority",
                margin=0.0,
                expected="with RoPE, Canon layers end lower than none",
            ),
            Contrast(
                "in place of positions",
                a=arm("canon", "none"),
                b=arm("none", "rope"),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"Canon layers without positions end at most {MARGIN} nats above RoPE",
            ),
        ),
        size=size,
    )
