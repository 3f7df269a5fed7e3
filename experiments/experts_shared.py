"""Claim V50 (Dai et al. 2024): a shared expert in place of a routed one lowers the loss.

    zoo run experiments/experts_shared.py
    zoo run experiments/experts_shared.py:small

The decoder of `zoo.lab.sizes` with 16 small experts of SwiGLU of which each token is sent to 4; and
with 15 of which it is sent to 3, and a shared one of the same width that sees every token, without a
gate. Both have as many parameters and FLOPs but for one column of each router. Gates of the routed
experts are divided by their sum. No token is dropped, and the loads are balanced by the loss of Fedus
et al. with its weight of 0.01. The optimizer is Muon, as in Liu et al. 2025: under AdamW, decoders of
size `tiny` end above a 5-gram model of bytes. Each arm has a learning rate of its own, found with
separate seeds.

Stated beforehand, on `eval/loss` at the last step: with the shared expert the model ends lower
(superiority, margin 0). Published: a gain (Dai et al. 2024, ablations), and none (Muennighoff et al.
2024, OLMoE), so that a verdict of the opposite sign agrees with the second.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name

EXPERTS = "model.ffn.experts"


def get_experiment(size: str = "tiny") -> Experiment:
    """16 routed experts, and 15 with a shared one."""
    # A quarter of the experts of `experts_fine`.
    width = 2 * decoder(size).model.dim // 3
    base = {
        "model.ffn.bias": False,
        "model.ffn.kind": "moe",
        "model.ffn.hidden_dim": width,
        f"{EXPERTS}.kind": "swiglu",
        f"{EXPERTS}.balance_weight": 0.01,
        "optimizer.kind": "muon",
    }
    return Experiment(
        name=sized_name("experts_shared", size),
        question="Does a shared expert in place of a routed one lower the loss?",
        base=config.override(decoder(size), base),
        factors={
            "experts": {
                "routed": {f"{EXPERTS}.number": 16, f"{EXPERTS}.per_token": 4, f"{EXPERTS}.shared_dim": 0},
                "one shared": {f"{EXPERTS}.number": 15, f"{EXPERTS}.per_token": 3, f"{EXPERTS}.shared_dim": width},
            }
        },
        allow=("parameters", "flops"),
        tune=rates(size, 1, 2.5, 6.25),
        claim=Claim(
            "V50",
            "A shared expert in place of a routed one lowers the loss",
            "Dai et al. 2024, DeepSeekMoE; Muennighoff et al. 2024, OLMoE",
        ),
        contrasts=(
            Contrast(
                "a shared expert helps",
                a=Side({"experts": "one shared"}),
                b=Side({"experts": "routed"}),
                rule="superiority",
                margin=0.0,
                expected="with a shared expert the model ends lower",
            ),
        ),
        size=size,
    )
