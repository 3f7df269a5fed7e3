"""Claim N5 (Zhang & Sennrich 2019): RMSNorm converges like LayerNorm, with fewer parameters and
less time.

    zoo run experiments/norm_kind.py
    zoo run experiments/norm_kind.py:small

The decoder of `zoo.lab.sizes` with LayerNorm, which has a scale and a shift, and with RMSNorm,
which has only the scale. Each arm uses its best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step: the two end within 0.02 nats of each other
(equivalence). That is 2 % of perplexity. The parameters are counted, not judged; `python
benchmarks/measure_claims.py norm_time` measures the time of a norm alone and of a whole step.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02


def get_experiment(size: str = "tiny") -> Experiment:
    """LayerNorm and RMSNorm."""
    return Experiment(
        name=sized_name("norm_kind", size),
        question="Does RMSNorm converge like LayerNorm?",
        base=decoder(size),
        factors={"norm": levels("model.norm.kind", "layernorm", "rmsnorm")},
        tune=rates(size),
        claim=Claim(
            "N5",
            "RMSNorm converges like LayerNorm, with fewer parameters and less time",
            "Zhang & Sennrich 2019, Root Mean Square Layer Normalization",
        ),
        contrasts=(
            Contrast(
                "RMSNorm converges like LayerNorm",
                a=Side({"norm": "rmsnorm"}),
                b=Side({"norm": "layernorm"}),
                rule="equivalence",
                margin=MARGIN,
                expected=f"they end within {MARGIN} nats of each other",
            ),
        ),
        size=size,
    )
