"""Claim A1 (Ainslie et al. 2023): grouped-query attention lies between multi-head and multi-query
attention in loss, near multi-head.

    zoo run experiments/shared_heads.py
    zoo run experiments/shared_heads.py:small

The decoder of `zoo.lab.sizes` with eight query heads that have eight, two or one key and value
heads. The parameters saved in keys and values widen the feed-forward, so that all arms have equally
many parameters, to within 1 %. Each arm uses its best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step:

* Two heads end at most 0.02 nats above eight (non-inferiority), 2 % of perplexity.
* Two heads end at most 0.02 nats above one (non-inferiority): they lie between the others, or the
  order is too small to see.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02


def get_experiment(size: str = "tiny") -> Experiment:
    """Eight, two and one key and value heads."""

    def heads(number: int) -> Side:
        return Side({"key/value heads": str(number)})

    return Experiment(
        name=sized_name("shared_heads", size),
        question="What does it cost to share keys and values between heads?",
        base=config.override(decoder(size), {"model.attention.num_heads": 8}),
        factors={"key/value heads": levels("model.attention.num_kv_heads", 8, 2, 1)},
        match=Match("parameters", "model.ffn.hidden_dim"),
        tune=rates(size, 0.4, 1, 2.5, 6),
        claim=Claim("A1", "GQA sits between MHA and MQA in loss, near MHA", "Ainslie et al. 2023, GQA"),
        contrasts=(
            Contrast(
                "grouped is near multi-head",
                a=heads(2),
                b=heads(8),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"two heads end at most {MARGIN} nats above eight",
            ),
            Contrast(
                "grouped is not behind multi-query",
                a=heads(2),
                b=heads(1),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"two heads end at most {MARGIN} nats above one",
            ),
        ),
        size=size,
    )
