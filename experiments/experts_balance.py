"""Claim V48 (Wang et al. 2024): biases on the choice of experts balance their loads as well as an
auxiliary loss, and cost nothing.

    zoo run experiments/experts_balance.py
    zoo run experiments/experts_balance.py:small

The decoder of `zoo.lab.sizes` with 8 experts of SwiGLU of which each token is sent to 2, by sigmoid
scores whose gates are divided by their sum, as in the paper and in DeepSeek-V3. One arm has the loss
of Fedus et al. with its weight of 0.01, the other biases that move by 0.001 after every update, the
rate of the paper. Parameters and FLOPs are the same; no token is dropped. The optimizer is Muon, as in
Liu et al. 2025: under AdamW, decoders of size `tiny` end above a 5-gram model of bytes. Each arm has a
learning rate of its own, found with separate seeds.

Stated beforehand, at the last step:

* On `eval/loss`, the biases end at most 0.02 nats above the auxiliary loss (non-inferiority), 2 % of
  perplexity.
* On `eval/expert_balance`, the sum over the layers of E sum_i f_i P_i, the biases end at most 0.1
  for each layer above the auxiliary loss (non-inferiority), a tenth of its value of 1 for a balanced
  layer: 0.4 with four layers, 0.6 with the six of `small`, 1.2 with the twelve of `gpu`.

Published: with biases, models of 1 B and 3 B parameters end at a lower perplexity and with more equal
loads (Wang et al. 2024).
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name

EXPERTS = "model.ffn.experts"
# The balance is the sum over the layers of a number that is 1 at best.
MARGIN, BALANCE_MARGIN_OF_A_LAYER = 0.02, 0.1


def get_experiment(size: str = "tiny") -> Experiment:
    """Loads balanced by an auxiliary loss, and by biases."""
    base = {
        "model.ffn.bias": False,
        "model.ffn.kind": "moe",
        "model.ffn.hidden_dim": decoder(size).model.dim,
        f"{EXPERTS}.kind": "swiglu",
        f"{EXPERTS}.scores": "sigmoid",
        "optimizer.kind": "muon",
    }
    balance_margin = round(BALANCE_MARGIN_OF_A_LAYER * decoder(size).model.num_layers, 3)
    biases, loss = {"balance": "biases"}, {"balance": "auxiliary loss"}
    return Experiment(
        name=sized_name("experts_balance", size),
        question="Do biases on the choice balance experts as well as an auxiliary loss, at no cost?",
        base=config.override(decoder(size), base),
        factors={
            "balance": {
                "auxiliary loss": {f"{EXPERTS}.balance_weight": 0.01, f"{EXPERTS}.bias_rate": 0.0},
                "biases": {f"{EXPERTS}.balance_weight": 0.0, f"{EXPERTS}.bias_rate": 0.001},
            }
        },
        tune=rates(size, 1, 2.5, 6.25),
        claim=Claim(
            "V48",
            "Biases on the choice of experts balance loads as well as an auxiliary loss, and cost nothing",
            "Wang et al. 2024, Auxiliary-Loss-Free Load Balancing; DeepSeek-AI 2024, DeepSeek-V3",
        ),
        contrasts=(
            Contrast(
                "biases cost nothing",
                a=Side(biases),
                b=Side(loss),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"with biases the model ends at most {MARGIN} nats above one with the auxiliary loss",
            ),
            Contrast(
                "biases balance as well",
                a=Side(biases, "eval/expert_balance"),
                b=Side(loss, "eval/expert_balance"),
                rule="non_inferiority",
                margin=balance_margin,
                expected=f"with biases the balance ends at most {balance_margin} above that with the auxiliary loss",
            ),
        ),
        size=size,
    )
