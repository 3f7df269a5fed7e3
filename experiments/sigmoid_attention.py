"""Claim A14 (Ramapuram et al. 2024): attention by sigmoids matches softmax attention, if the scores
begin at -ln n.

    zoo run experiments/sigmoid_attention.py
    zoo run experiments/sigmoid_attention.py:small

The decoder of `zoo.lab.sizes` with softmax attention, with sigmoid(score - ln n) for rows of n
tokens, and with sigmoid(score). Each arm uses its best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step:

* Sigmoids with the bias end at most 0.02 nats above softmax (non-inferiority).
* They end lower than sigmoids without it (superiority, margin 0).

The loss does not tell whether such a model also finds what it read far back; `multi_query_recall.py`
asks that.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02


def get_experiment(size: str = "tiny") -> Experiment:
    """Softmax, and sigmoids with and without the bias."""
    sigmoid = {"model.attention.kind": "sigmoid"}
    return Experiment(
        name=sized_name("sigmoid_attention", size),
        question="Does sigmoid attention with a bias of -ln n match softmax attention?",
        base=decoder(size),
        factors={
            "attention": {
                "softmax": {"model.attention.kind": "softmax"},
                "sigmoid": sigmoid,
                "sigmoid, no bias": sigmoid | {"model.attention.sigmoid_bias": 0.0},
            }
        },
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim(
            "A14",
            "Sigmoid attention matches softmax attention, if the scores begin at -ln n",
            "Ramapuram et al. 2024, Theory, Analysis, and Best Practices for Sigmoid Self-Attention",
        ),
        contrasts=(
            Contrast(
                "sigmoids match softmax",
                a=Side({"attention": "sigmoid"}),
                b=Side({"attention": "softmax"}),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"sigmoids end at most {MARGIN} nats above softmax",
            ),
            Contrast(
                "the bias matters",
                a=Side({"attention": "sigmoid"}),
                b=Side({"attention": "sigmoid, no bias"}),
                rule="superiority",
                margin=0.0,
                expected="with the bias it ends lower than without",
            ),
        ),
        size=size,
    )
