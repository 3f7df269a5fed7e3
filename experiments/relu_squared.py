"""Claim V5 (So et al. 2021; Karpathy 2025): squared ReLU ends below SwiGLU with as many parameters.

    zoo run experiments/relu_squared.py
    zoo run experiments/relu_squared.py:small

The decoder of `zoo.lab.sizes` with squared ReLU, and with SwiGLU whose three matrices have 2/3 of
the hidden units, so that both have the same parameters and FLOPs. Each arm uses its best learning
rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step: squared ReLU ends lower (superiority). Shazeer
2020 finds the gated layers better than ReLU; nanochat finds SwiGLU worse than squared ReLU at
depths 12 and 24, at equal parameters and FLOPs.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name


def get_experiment(size: str = "tiny") -> Experiment:
    """Squared ReLU and SwiGLU."""
    claim = "Squared ReLU ends below SwiGLU with as many parameters"
    return Experiment(
        name=sized_name("relu_squared", size),
        question="Does squared ReLU end below SwiGLU with as many parameters?",
        base=config.override(decoder(size), {"model.ffn.match_parameters": True, "model.ffn.bias": False}),
        factors={"ffn": levels("model.ffn.kind", "swiglu", "relu_squared")},
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim("V5", claim, "So et al. 2021; Karpathy 2025 (nanochat)"),
        contrasts=(
            Contrast(
                "squared ReLU ends lower",
                a=Side({"ffn": "relu_squared"}),
                b=Side({"ffn": "swiglu"}),
                rule="superiority",
                margin=0.0,
                expected="squared ReLU ends below SwiGLU",
            ),
        ),
        size=size,
    )
