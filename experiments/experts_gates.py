"""Claim V51 (Jiang et al. 2024; Muennighoff et al. 2024): it makes no difference whether the gates of
a token's experts are divided by their sum.

    zoo run experiments/experts_gates.py
    zoo run experiments/experts_gates.py:small

The decoder of `zoo.lab.sizes` with 8 experts of SwiGLU of which each token is sent to 2. The gates are
the two largest scores of a softmax over all experts (OLMoE), or these divided by their sum (Mixtral),
which makes them about four times as large at first. Parameters and FLOPs are the same. No token is
dropped, and the loads are balanced by the loss of Fedus et al. with its weight of 0.01. The optimizer
is Muon, as in Liu et al. 2025: under AdamW, decoders of size `tiny` end above a 5-gram model of bytes.
Each arm has a learning rate of its own, found with separate seeds.

Stated beforehand, on `eval/loss` at the last step: the two end within 0.02 nats of each other
(equivalence), 2 % of perplexity.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name

EXPERTS = "model.ffn.experts"
MARGIN = 0.02


def get_experiment(size: str = "tiny") -> Experiment:
    """Gates divided by their sum, and not."""
    base = {
        "model.ffn.bias": False,
        "model.ffn.kind": "moe",
        "model.ffn.hidden_dim": decoder(size).model.dim,
        f"{EXPERTS}.kind": "swiglu",
        f"{EXPERTS}.balance_weight": 0.01,
        "optimizer.kind": "muon",
    }
    return Experiment(
        name=sized_name("experts_gates", size),
        question="Does it make a difference whether gates are divided by their sum?",
        base=config.override(decoder(size), base),
        factors={
            "gates": {"divided by the sum": {f"{EXPERTS}.renormalise": True}, "raw": {f"{EXPERTS}.renormalise": False}}
        },
        tune=rates(size, 1, 2.5, 6.25),
        claim=Claim(
            "V51",
            "It makes no difference whether the gates of a token's experts are divided by their sum",
            "Jiang et al. 2024, Mixtral; Muennighoff et al. 2024, OLMoE",
        ),
        contrasts=(
            Contrast(
                "gates end alike",
                a=Side({"gates": "raw"}),
                b=Side({"gates": "divided by the sum"}),
                rule="equivalence",
                margin=MARGIN,
                expected=f"they end within {MARGIN} nats of each other",
            ),
        ),
        size=size,
    )
