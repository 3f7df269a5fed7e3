"""Claim V47 (Dai et al. 2024; Krajewski et al. 2024): many small experts end below a few large ones of
the same cost.

    zoo run experiments/experts_fine.py
    zoo run experiments/experts_fine.py:small

The decoder of `zoo.lab.sizes` with experts of SwiGLU: 4 of which each token is sent to 1, as wide as
the dense layer of that size, and 16 of which it is sent to 4, whose width is chosen so that both have
the same FLOPs per token; the router's are counted. Parameters then differ by 2 % at most. The gates
are the scores themselves, since the one gate of the large experts would always be 1 if it were
divided by the sum. No token is dropped, and the loads are balanced by the loss of Fedus et al. with
its weight of 0.01. The optimizer is Muon, as in Liu et al. 2025: under AdamW, decoders of size `tiny`
end above a 5-gram model of bytes. Each arm has a learning rate of its own, found with separate seeds.

Stated beforehand, on `eval/loss` at the last step: the small experts end lower (superiority, margin
0). Published: scores on tasks rise when experts are divided more finely (Dai et al. 2024, ablations;
Muennighoff et al. 2024), and experts as wide as a dense layer are not the best ones at almost any
budget (Krajewski et al. 2024).
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side
from zoo.lab.sizes import decoder, rates, sized_name

EXPERTS = "model.ffn.experts"


def get_experiment(size: str = "tiny") -> Experiment:
    """One of 4 large experts and 4 of 16 small ones, at equal FLOPs."""
    base = {
        "model.ffn.bias": False,
        "model.ffn.kind": "moe",
        "model.ffn.match_parameters": True,
        f"{EXPERTS}.kind": "swiglu",
        f"{EXPERTS}.renormalise": False,
        f"{EXPERTS}.balance_weight": 0.01,
        "optimizer.kind": "muon",
    }
    return Experiment(
        name=sized_name("experts_fine", size),
        question="Do many small experts end below a few large ones of the same cost?",
        base=config.override(decoder(size), base),
        factors={
            "experts": {
                "1 of 4": {f"{EXPERTS}.number": 4, f"{EXPERTS}.per_token": 1},
                "4 of 16": {f"{EXPERTS}.number": 16, f"{EXPERTS}.per_token": 4},
            }
        },
        # Operations are matched to within 1 %.
        allow=("parameters", "flops"),
        match=Match("active_flops", "model.ffn.hidden_dim"),
        tune=rates(size, 1, 2.5, 6.25),
        claim=Claim(
            "V47",
            "Many small experts end below a few large ones of the same cost",
            "Dai et al. 2024, DeepSeekMoE; Krajewski et al. 2024",
        ),
        contrasts=(
            Contrast(
                "small experts end lower",
                a=Side({"experts": "4 of 16"}),
                b=Side({"experts": "1 of 4"}),
                rule="superiority",
                margin=0.0,
                expected="4 of 16 small experts end below 1 of 4 large ones",
            ),
        ),
        size=size,
    )
