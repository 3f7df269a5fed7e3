"""Claim V24 (Zhu et al. 2025): a dynamic tanh in place of RMSNorm costs nothing.

    zoo run experiments/norm_tanh.py
    zoo run experiments/norm_tanh.py:small

The decoder of `zoo.lab.sizes` with RMSNorm, and with a dynamic tanh in its place. As in the paper's
language models, the arm with the tanh multiplies embeddings by sqrt(D), without which the tanh
begins with hardly any input (the paper learns this factor, here it is fixed). Each arm uses its
best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step: the dynamic tanh ends less than 0.02 nats above
RMSNorm (non-inferiority). The paper finds no difference in LLaMA 7B to 70B; nanochat finds it never
better.

The scaled embeddings were added after a first sweep without them, in which the dynamic tanh ended 1.01
nats above RMSNorm (95 % interval 0.13 to 1.88, 3 seeds) and the claim was not supported.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02


def get_experiment(size: str = "tiny") -> Experiment:
    """RMSNorm and dynamic tanh."""
    claim = "A dynamic tanh in place of RMSNorm costs nothing"
    return Experiment(
        name=sized_name("norm_tanh", size),
        question="Does a dynamic tanh in place of RMSNorm cost nothing?",
        base=decoder(size),
        factors={
            "norm": {
                "rmsnorm": {"model.norm.kind": "rmsnorm"},
                "dyt": {"model.norm.kind": "dyt", "model.embedding.scale": "sqrt_dim"},
            }
        },
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        allow=("parameters", "levels"),
        claim=Claim("V24", claim, "Zhu et al. 2025"),
        contrasts=(
            Contrast(
                "dynamic tanh costs nothing",
                a=Side({"norm": "dyt"}),
                b=Side({"norm": "rmsnorm"}),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"dynamic tanh ends less than {MARGIN} nats above RMSNorm",
            ),
        ),
        size=size,
    )
