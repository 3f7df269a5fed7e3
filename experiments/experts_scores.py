"""Claim V49 (DeepSeek-AI 2024, DeepSeek-V3): sigmoid scores of experts lose nothing against softmax.

    zoo run experiments/experts_scores.py
    zoo run experiments/experts_scores.py:small

The decoder of `zoo.lab.sizes` with 8 experts of SwiGLU of which each token is sent to 2. Their scores
are a softmax over all experts, or a sigmoid of each by itself; the gates are the scores of the two,
divided by their sum. Parameters and FLOPs are the same. No token is dropped, and the loads are
balanced by the loss of Fedus et al. with its weight of 0.01. The optimizer is Muon, as in Liu et al.
2025: under AdamW, decoders of size `tiny` end above a 5-gram model of bytes. Each arm has a learning
rate of its own, found with separate seeds.

Stated beforehand, on `eval/loss` at the last step: sigmoids end at most 0.02 nats above softmax
(non-inferiority), 2 % of perplexity. DeepSeek-V3 has sigmoids where DeepSeek-V2 had a softmax, and its
report does not compare the two alone.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

EXPERTS = "model.ffn.experts"
MARGIN = 0.02


def get_experiment(size: str = "tiny") -> Experiment:
    """Softmax and sigmoid scores."""
    base = {
        "model.ffn.bias": False,
        "model.ffn.kind": "moe",
        "model.ffn.hidden_dim": decoder(size).model.dim,
        f"{EXPERTS}.kind": "swiglu",
        f"{EXPERTS}.balance_weight": 0.01,
        "optimizer.kind": "muon",
    }
    return Experiment(
        name=sized_name("experts_scores", size),
        question="Do sigmoid scores of experts lose nothing against softmax?",
        base=config.override(decoder(size), base),
        factors={"scores": levels(f"{EXPERTS}.scores", "softmax", "sigmoid")},
        tune=rates(size, 1, 2.5, 6.25),
        claim=Claim("V49", "Sigmoid scores of experts lose nothing against softmax", "DeepSeek-AI 2024, DeepSeek-V3"),
        contrasts=(
            Contrast(
                "sigmoids cost nothing",
                a=Side({"scores": "sigmoid"}),
                b=Side({"scores": "softmax"}),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"sigmoids end at most {MARGIN} nats above softmax",
            ),
        ),
        size=size,
    )
