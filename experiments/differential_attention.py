"""Claim V28 (Ye et al. 2024): subtracting a second softmax lowers the loss.

    zoo run experiments/differential_attention.py
    zoo run experiments/differential_attention.py:small

The decoder of `zoo.lab.sizes` with eight heads of softmax attention; with differential attention,
whose lambda_0 grows with depth; and with differential attention whose lambda_0 is 0.8 in every
layer. All arms have the same heads, and almost the same parameters: lambda has four vectors in each
layer. Each arm uses its best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step:

* Differential attention ends below softmax attention (superiority, margin 0).
* With a constant lambda_0 it ends at most 0.02 nats above that with one that grows with depth
  (non-inferiority).

Published: the loss of a Transformer with about 65 % of its parameters or tokens, and little
difference between initial values of lambda (Ye et al. 2024, sections 3.2 and 3.8). The authors
recommend at least eight pairs of heads; the models here have four.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02
DIFFERENTIAL = {"model.attention.kind": "differential"}


def get_experiment(size: str = "tiny") -> Experiment:
    """Softmax attention, and differential attention with two kinds of lambda_0."""
    by_depth, constant = Side({"weights": "differential"}), Side({"weights": "constant lambda"})
    return Experiment(
        name=sized_name("differential_attention", size),
        question="Does subtracting a second softmax lower the loss?",
        base=decoder(size, {"model.attention.num_heads": 8}),
        factors={
            "weights": {
                "softmax": {},
                "differential": DIFFERENTIAL,
                "constant lambda": DIFFERENTIAL | {"model.attention.lambda_init": 0.8},
            }
        },
        allow=("parameters",),
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim(
            "V28",
            "Differential attention lowers the loss, whatever its lambda is at first",
            "Ye et al. 2024, Differential Transformer",
        ),
        contrasts=(
            Contrast(
                "differential attention ends lower",
                a=by_depth,
                b=Side({"weights": "softmax"}),
                rule="superiority",
                margin=0.0,
                expected="differential attention ends below softmax attention",
            ),
            Contrast(
                "a constant lambda costs nothing",
                a=constant,
                b=by_depth,
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"a constant lambda_0 ends at most {MARGIN} nats above one that grows with depth",
            ),
        ),
        size=size,
    )
