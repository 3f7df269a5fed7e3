"""Claim V57 (Brandon et al. 2024): every second layer can read keys and values of the layer before.

    zoo run experiments/shared_layers.py
    zoo run experiments/shared_layers.py:rung1

The decoder of `zoo.lab.sizes` with keys and values of its own in every layer, and with those of the
layer before in every second layer (CLA2), where a cache is half as large. The width of the
feed-forward layers gives both as many parameters. Each arm has a learning rate of its own, found with
separate seeds.

Stated beforehand, on `eval/loss` at the last step: the decoder with half of the cache ends at most
0.02 nats above the other (non-inferiority), 2 % of perplexity.

Published: nearly the accuracy of multi-query attention with half of its cache, at 1B and 3B
parameters (Brandon et al. 2024, arXiv:2405.12981).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02
SHARED = {
    "model.layers.pattern": ("own", "reader"),
    "model.layers.kinds.own.attention.keys_from": "",
    "model.layers.kinds.reader.attention.keys_from": "own",
}


def get_experiment(size: str = "tiny") -> Experiment:
    """Keys and values of every layer, and of every second one."""
    return Experiment(
        name=sized_name("shared_layers", size),
        question="Do layers need keys and values of their own?",
        base=decoder(size),
        factors={"keys and values": {"every layer": {}, "every second": SHARED}},
        allow=("parameters", "flops"),
        match=Match("parameters", "model.ffn.hidden_dim"),
        tune=rates(size),
        claim=Claim(
            "V57",
            "Keys and values of every second layer can be those of the layer before, at half of the cache",
            "Brandon et al. 2024",
        ),
        contrasts=(
            Contrast(
                "half of the cache costs nothing",
                a=Side({"keys and values": "every second"}),
                b=Side({"keys and values": "every layer"}),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"the decoder with half of the cache ends at most {MARGIN} nats above the other",
            ),
        ),
        size=size,
    )
