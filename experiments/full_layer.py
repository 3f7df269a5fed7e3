"""Claim V54 (Qwen Team 2025, Qwen3-Next): in a hybrid of four layers it does not matter which one has
full attention.

    zoo run experiments/full_layer.py
    zoo run experiments/full_layer.py:rung1

The decoder of `zoo.lab.sizes`: three of its four layers are of Gated DeltaNet, without positions, and
one has full attention with RoPE: the first, the second, the third or the last, as in Qwen3-Next. All
arms have the same parameters and operations. Each arm has a learning rate of its own, found with
separate seeds.

Stated beforehand, on `eval/loss` at the last step: each of the other three ends within 0.02 nats of
the one whose last layer has full attention (equivalence), 2 % of perplexity. No report that is known
here compares the places alone.
"""

from collections.abc import Mapping
from typing import Any

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name, whole_patterns

MARGIN = 0.02
PLACES = ("first", "second", "third", "last")
KINDS = {
    "model.layers.kinds.state.attention.kind": "gated_delta",
    "model.layers.kinds.state.position.kind": "none",
    "model.layers.kinds.full.attention.kind": "softmax",
}


def get_experiment(size: str = "tiny") -> Experiment:
    """A layer of full attention in each of four places."""
    return Experiment(
        name=sized_name("full_layer", size),
        question="Which of four layers should have full attention?",
        base=decoder(size, whole_patterns(size, len(PLACES))),
        factors={"full layer": {place: _hybrid(place) for place in PLACES}},
        tune=rates(size),
        claim=Claim("V54", "In a hybrid it does not matter which of four layers has full attention", "Qwen Team 2025"),
        contrasts=tuple(
            Contrast(
                f"the {place} is as good as the last",
                a=Side({"full layer": place}),
                b=Side({"full layer": "last"}),
                rule="equivalence",
                margin=MARGIN,
                expected=f"with full attention in the {place} layer the model ends within {MARGIN} nats",
            )
            for place in PLACES[:-1]
        ),
        size=size,
    )


def _hybrid(place: str) -> Mapping[str, Any]:
    pattern = tuple("full" if each == place else "state" for each in PLACES)
    return {"model.layers.pattern": pattern, **KINDS}
