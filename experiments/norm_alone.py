"""Claims N7, N10 (Ba et al. 2016; Zhang & Sennrich 2019): normalisation speeds convergence, and of
LayerNorm's two parts, dividing by the scale is what matters, not subtracting the mean.

    zoo run experiments/norm_alone.py
    zoo run experiments/norm_alone.py:small

The decoder of `zoo.lab.sizes` with both parts (LayerNorm), dividing alone (RMSNorm), subtracting
the mean alone, and no normalisation at all. The invariances of each are exact and have a test:
`tests/claims/test_exact.py`. Each arm uses its best learning rate, fitted with separate seeds; the
curves over learning rates show at which ones the arms without division still train.

Stated beforehand, on `eval/loss` at the last step:

* LayerNorm ends more than 0.02 nats below no normalisation (superiority): 2 % of perplexity.
* Dividing alone ends at most 0.02 nats above both (non-inferiority).
* Both end more than 0.02 nats below subtracting the mean alone (superiority).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02
PARTS = {"both": "layernorm", "scale only": "rmsnorm", "centre only": "centering", "none": "none"}


def get_experiment(size: str = "tiny") -> Experiment:
    """Both parts of LayerNorm, either, and none."""

    def norm(parts: str) -> Side:
        return Side({"normalisation": parts})

    return Experiment(
        name=sized_name("norm_alone", size),
        question="Which part of LayerNorm speeds training?",
        base=decoder(size),
        factors={"normalisation": {name: {"model.norm.kind": kind} for name, kind in PARTS.items()}},
        tune=rates(size, 0.1, 0.4, 1, 2.5, 6.25),
        claim=Claim(
            "N7, N10",
            "Normalisation speeds convergence, by dividing and not by subtracting the mean",
            "Ba et al. 2016, Layer Normalization; Zhang & Sennrich 2019, section 4",
        ),
        contrasts=(
            Contrast(
                "normalisation helps",
                a=norm("both"),
                b=norm("none"),
                rule="superiority",
                margin=MARGIN,
                expected=f"with LayerNorm it ends more than {MARGIN} nats below none",
                claim="N7",
            ),
            Contrast(
                "dividing is enough",
                a=norm("scale only"),
                b=norm("both"),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"dividing alone ends at most {MARGIN} nats above both",
                claim="N10",
            ),
            Contrast(
                "subtracting is not",
                a=norm("both"),
                b=norm("centre only"),
                rule="superiority",
                margin=MARGIN,
                expected=f"both end more than {MARGIN} nats below subtracting alone",
                claim="N10",
            ),
        ),
        size=size,
    )
