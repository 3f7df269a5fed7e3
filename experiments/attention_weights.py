"""Claim V26 (Nakanishi 2025; Lin et al. 2025; Zhai 2026): other weights of attention than softmax's
lower the loss, or cost nothing.

    zoo run experiments/attention_weights.py
    zoo run experiments/attention_weights.py:small

The decoder of `zoo.lab.sizes` with softmax attention; with 1 added to the denominator; with scores
times s ln(number of keys), s learned by each head (Scalable-Softmax); with cosines in place of dot
products; with each head's output made orthogonal to the token's own value (XSA); and with forget
gates. Each arm uses its best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step:

* Scalable-Softmax, XSA and forget gates each end below softmax attention (superiority, margin 0).
* The 1 in the denominator and cosines each end at most 0.02 nats above it (non-inferiority).

Published: forget gates are better than RoPE in language models of long rows (Lin et al. 2025); XSA
gains 1.36 points on tasks at 2.7 B parameters (Zhai 2026). Scalable-Softmax and forget gates were
designed for contexts much longer than the rows of 64 tokens here.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02
LOWER = {
    "scalable softmax": {"model.attention.ssmax": 0.4},
    "XSA": {"model.attention.exclusive": True},
    "forget gates": {"model.attention.kind": "forgetting"},
}
HARMLESS = {
    "softmax plus one": {"model.attention.kind": "softmax_plus_one"},
    "cosines": {"model.attention.qk_norm": "cosine"},
}


def get_experiment(size: str = "tiny") -> Experiment:
    """Softmax attention and five others."""

    def beside_softmax(name: str, rule: str, margin: float, expected: str) -> Contrast:
        a, b = Side({"weights": name}), Side({"weights": "softmax"})
        return Contrast(f"{name} beside softmax", a, b, rule, margin, f"{name}: {expected} softmax")

    return Experiment(
        name=sized_name("attention_weights", size),
        question="Do other weights of attention than softmax's lower the loss?",
        base=decoder(size),
        factors={"weights": {"softmax": {}, **LOWER, **HARMLESS}},
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim(
            "V26",
            "Scalable softmax, XSA and forget gates lower the loss; a 1 in the denominator and cosines cost nothing",
            "Nakanishi 2025; Lin et al. 2025; Zhai 2026; Miller 2023; Henry et al. 2020",
        ),
        contrasts=(
            *(beside_softmax(name, "superiority", 0.0, "ends below") for name in LOWER),
            *(
                beside_softmax(name, "non_inferiority", MARGIN, f"ends at most {MARGIN} nats above")
                for name in HARMLESS
            ),
        ),
        size=size,
    )
