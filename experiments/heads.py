"""Claim A8 (Vaswani et al. 2017, Table 3 row A): several heads beat one at equal width, up to a
point.

    zoo run experiments/heads.py
    zoo run experiments/heads.py:small

The decoder of `zoo.lab.sizes` with 1, 2, 4, 8 and 16 heads, each D / H wide, so that all have
equally many parameters. Each arm uses its best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step:

* Four heads end below one (superiority, margin 0). In the paper one head costs 0.9 BLEU against the
  best.
* Sixteen heads end at most 0.02 nats below eight: "up to a point" (non-inferiority of eight).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02


def get_experiment(size: str = "tiny") -> Experiment:
    """One to sixteen heads."""

    def heads(number: int) -> Side:
        return Side({"heads": str(number)})

    return Experiment(
        name=sized_name("heads", size),
        question="How many heads are best at one width?",
        base=decoder(size),
        factors={"heads": levels("model.attention.num_heads", 1, 2, 4, 8, 16)},
        tune=rates(size, 0.4, 1, 2.5, 6),
        claim=Claim("A8", "Several heads beat one at equal width, up to a point", "Vaswani et al. 2017, Table 3 row A"),
        contrasts=(
            Contrast(
                "several beat one",
                a=heads(4),
                b=heads(1),
                rule="superiority",
                margin=0.0,
                expected="four heads end below one",
            ),
            Contrast(
                "up to a point",
                a=heads(8),
                b=heads(16),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"eight heads end at most {MARGIN} nats above sixteen",
            ),
        ),
        size=size,
    )
