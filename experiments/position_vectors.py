"""Claim P13: learned absolute positions treat near and far alike.

    zoo run experiments/position_vectors.py
    zoo run experiments/position_vectors.py:small

The decoder of `zoo.lab.sizes` and an encoder of the same size that predicts hidden tokens, both
with learned positions. Measured is `near_and_far`: the mean cosine of the vectors of positions 1 to
4 apart, less that of positions half a row apart or more. Vectors that know nothing of distance have
0, as they have at the start.

Stated beforehand: after training the difference is within 0.1 of what it is at the initial values
(equivalence), in either of the two. Others have found it larger: Wang & Chen 2020 in published
encoders and decoders.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, sized_name

MARGIN = 0.1
MEASURE = "measured/near_and_far"
MODELS = {
    "decoder": {"model.architecture": "decoder", "objective.kind": "causal"},
    "encoder": {"model.architecture": "encoder", "objective.kind": "masked"},
}


def get_experiment(size: str = "tiny") -> Experiment:
    """A decoder and an encoder."""
    return Experiment(
        name=sized_name("position_vectors", size),
        question="Are the learned vectors of near positions as unlike as those of far ones?",
        base=config.override(decoder(size), {"model.position.kind": "learned"}),
        factors={"model": MODELS},
        # No two models are compared.
        allow=("flops", "parameters", "levels"),
        claim=Claim("P13", "Learned absolute positions treat near and far alike", "EleutherAI 2021, Rotary Embeddings"),
        contrasts=tuple(
            Contrast(
                f"near and far are alike in the {model}",
                a=Side({"model": model}, MEASURE),
                b=Side({"model": model}, f"{MEASURE}@initial"),
                rule="equivalence",
                margin=MARGIN,
                expected=f"in the {model} the difference between near and far stays within {MARGIN} of where it starts",
            )
            for model in MODELS
        ),
        size=size,
    )
