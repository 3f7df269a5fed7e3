"""Claim P13: learned absolute positions treat near and far alike.

    zoo run experiments/position_vectors.py
    zoo run experiments/position_vectors.py:small

The decoder of `zoo.lab.sizes` and an encoder of the same size that predicts masked tokens, both
with learned positions. The measure is `position_locality`, in `measures/position_locality.py`: the
mean cosine similarity of position vectors 1 to 4 apart, minus that of position vectors at least half
a row apart. It is 0 for vectors without information on distance, as at initialisation.

Stated beforehand: after training the difference is within 0.1 of its value at initialisation
(equivalence), in both models. Wang & Chen 2020 found it larger in published encoders and decoders.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, sized_name

MARGIN = 0.1
MEASURE = "measured/position_locality"
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
        metric=MEASURE,
        # The contrasts compare each model with itself.
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
