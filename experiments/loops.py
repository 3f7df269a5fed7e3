"""Claims V55, V56 (Saunshi et al. 2025): layers that are looped over end below the same layers used
once, and above as many layers with weights of their own.

    zoo run experiments/loops.py
    zoo run experiments/loops.py:rung1

The decoder of `zoo.lab.sizes` with its four layers; with two layers that are applied in turn, twice;
and with two layers. The looped model has the operations of the first and the parameters of the last
one. Each arm has a learning rate of its own, found with separate seeds.

Stated beforehand, on `eval/loss` at the last step:

* V55, at equal parameters: the looped layers end below the two layers (superiority, margin 0).
* V56, at equal operations: the looped layers end above the four layers (superiority of the latter,
  margin 0).

Published: at 1 B parameters 12 layers that are looped over twice have a perplexity of 7.90 and 24
layers of their own 7.40, while the former are better at problems of reasoning (Saunshi et al. 2025,
arXiv:2502.17416). What a loop does for reasoning is not asked here.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name

LOOPED = {"model.layers.distinct": 2, "model.layers.sharing": "cycle"}


def get_experiment(size: str = "tiny") -> Experiment:
    """Four layers, two layers looped over twice, and two layers."""
    looped = Side({"layers": "2 twice"})
    return Experiment(
        name=sized_name("loops", size),
        question="What are two layers worth that are applied twice?",
        base=decoder(size, {"model.num_layers": 4}),
        factors={"layers": {"4": {}, "2 twice": LOOPED, "2": {"model.num_layers": 2}}},
        allow=("parameters", "flops"),
        tune=rates(size),
        claim=Claim(
            "V55, V56",
            "Looped layers end between the same layers used once and layers of their own",
            "Saunshi et al. 2025",
        ),
        contrasts=(
            Contrast(
                "loops help at equal parameters",
                a=looped,
                b=Side({"layers": "2"}),
                rule="superiority",
                margin=0.0,
                expected="the looped layers end below the same layers used once",
                claim="V55",
            ),
            Contrast(
                "weights of their own help at equal operations",
                a=Side({"layers": "4"}),
                b=looped,
                rule="superiority",
                margin=0.0,
                expected="four layers of their own end below the looped ones",
                claim="V56",
            ),
        ),
        size=size,
    )
