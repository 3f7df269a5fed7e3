"""Claim A11 (Beltagy et al. 2020, section 3.1): dilating the windows of some heads helps at equal
cost.

    zoo run experiments/dilated_windows.py
    zoo run experiments/dilated_windows.py:small

The decoder of `zoo.lab.sizes` with windows of an eighth of the row in all layers: over neighbouring
tokens in every head; over every second token in half of the heads; over every second token in all
heads. Every query sees equally many keys, except at the start of a row, where a dilated window has
fewer. All arms run the same kernel, which computes the scores of all keys and masks some: the
number of visible keys is equal, and time is not measured. Each arm uses its best learning rate,
fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step, both with margin 0 (superiority):

* Windows that are dilated in half of the heads end below windows that are dilated in none.
* They end below windows that are dilated in all heads: some heads should keep the near context.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, choose_size
from zoo.lab.sizes import SIZES, decoder, rates, sized_name

ARMS = {"none": (), "half": (1, 2), "all": (2,)}


def get_experiment(size: str = "tiny") -> Experiment:
    """Dilated windows in none, half or all of the heads."""
    window = choose_size(size, SIZES)["data.sequence_length"] // 8

    def arm(dilated: str) -> Side:
        return Side({"dilated heads": dilated})

    return Experiment(
        name=sized_name("dilated_windows", size),
        question="Do windows that reach further with gaps, in some heads, help?",
        base=config.override(
            decoder(size), {"model.attention.window": window, "model.attention.implementation": "einsum"}
        ),
        factors={"dilated heads": {name: {"model.attention.dilations": dilations} for name, dilations in ARMS.items()}},
        tune=rates(size),
        claim=Claim(
            "A11",
            "Dilating some heads' windows helps at equal cost",
            "Beltagy et al. 2020, Longformer, section 3.1 and Table 4",
        ),
        contrasts=(
            Contrast(
                "some help",
                a=arm("half"),
                b=arm("none"),
                rule="superiority",
                margin=0.0,
                expected="dilated in half of the heads, windows end below those dilated in none",
            ),
            Contrast(
                "not all",
                a=arm("half"),
                b=arm("all"),
                rule="superiority",
                margin=0.0,
                expected="dilated in half of the heads, windows end below those dilated in all",
            ),
        ),
        size=size,
    )
