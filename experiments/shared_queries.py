"""Claim A9: heads should share keys and values, not queries.

    zoo run experiments/shared_queries.py
    zoo run experiments/shared_queries.py:small

The decoder of `zoo.lab.sizes` with eight heads, in groups of four that share nothing, keys and
values, queries, or all three. Heads that share all three are one head with a wider output. The
saved parameters widen the feed-forward, so that all arms have equally many parameters, to within 1
%. Each arm uses its best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step:

* Shared keys and values end at most 0.02 nats above nothing shared (non-inferiority), as in
  `shared_heads.py`.
* They end below shared queries (superiority, margin 0), although they save twice as much.
* They end below all three shared (superiority, margin 0).
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02
HEADS, SHARED = 8, 2
# Numbers of different queries, and of different keys and values.
ARMS = {
    "nothing": (HEADS, HEADS),
    "keys and values": (HEADS, SHARED),
    "queries": (SHARED, HEADS),
    "all": (SHARED, SHARED),
}


def get_experiment(size: str = "tiny") -> Experiment:
    """Four ways of sharing in groups of four heads."""

    def arm(shared: str) -> Side:
        return Side({"shared": shared})

    return Experiment(
        name=sized_name("shared_queries", size),
        question="Which of queries, keys and values should heads share?",
        base=config.override(decoder(size), {"model.attention.num_heads": HEADS}),
        factors={
            "shared": {
                name: {"model.attention.num_query_heads": queries, "model.attention.num_kv_heads": keys}
                for name, (queries, keys) in ARMS.items()
            }
        },
        match=Match("parameters", "model.ffn.hidden_dim"),
        tune=rates(size, 0.4, 1, 2.5, 6),
        claim=Claim(
            "A9", "Keys and values are the ones to share, not queries", "lecture; Shazeer 2019 shares keys and values"
        ),
        contrasts=(
            Contrast(
                "keys and values can be shared",
                a=arm("keys and values"),
                b=arm("nothing"),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"shared keys and values end at most {MARGIN} nats above nothing shared",
            ),
            Contrast(
                "rather than queries",
                a=arm("keys and values"),
                b=arm("queries"),
                rule="superiority",
                margin=0.0,
                expected="shared keys and values end below shared queries",
            ),
            Contrast(
                "rather than all",
                a=arm("keys and values"),
                b=arm("all"),
                rule="superiority",
                margin=0.0,
                expected="shared keys and values end below all three shared",
            ),
        ),
        size=size,
    )
