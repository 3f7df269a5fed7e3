"""Claim A10: sharing key and value heads also works in cross-attention.

    zoo run experiments/shared_heads_across.py
    zoo run experiments/shared_heads_across.py:small

An encoder-decoder that restores spans, for which its decoder needs what the encoder read, with the
width, heads and budget of `zoo.lab.sizes`, half the layers on either side. Eight query heads have
eight key and value heads, or two: in the self-attention of both sides, in the cross-attention, or
in both. The saved parameters widen the feed-forwards, so that all arms have equally many
parameters, to within 1 %. Each arm uses its best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step, each at most 0.02 nats above (non-inferiority):

* two heads in self-attention above eight everywhere;
* two heads in cross-attention above eight everywhere;
* two heads everywhere above two in self-attention.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.02
ARMS = {"nowhere": (8, 8), "self": (2, 8), "cross": (8, 2), "both": (2, 2)}


def get_experiment(size: str = "tiny") -> Experiment:
    """Returns arms that share keys and values nowhere, in self-, in cross-attention, or in both."""
    base = decoder(size)

    def contrast(name: str, a: str, b: str, expected: str) -> Contrast:
        return Contrast(
            name,
            a=Side({"shared in": a}),
            b=Side({"shared in": b}),
            rule="non_inferiority",
            margin=MARGIN,
            expected=expected,
        )

    return Experiment(
        name=sized_name("shared_heads_across", size),
        question="Can keys and values be shared between heads in cross-attention too?",
        base=config.override(
            base,
            {
                "model.architecture": "encoder_decoder",
                "objective.kind": "span",
                "model.attention.num_heads": 8,
                "model.num_layers": base.model.num_layers // 2,
            },
        ),
        factors={
            "shared in": {
                name: {"model.attention.num_kv_heads": own, "model.attention.cross_kv_heads": across}
                for name, (own, across) in ARMS.items()
            }
        },
        match=Match("parameters", "model.ffn.hidden_dim"),
        # Cross-attention and the feed-forwards process different numbers of tokens.
        allow=("flops",),
        tune=rates(size),
        claim=Claim(
            "A10", "Sharing heads also works in cross-attention", "lecture; Ainslie et al. 2023 share both at once"
        ),
        contrasts=(
            contrast(
                "in self-attention",
                "self",
                "nowhere",
                f"two heads in self-attention end at most {MARGIN} nats above eight",
            ),
            contrast(
                "in cross-attention",
                "cross",
                "nowhere",
                f"two heads in cross-attention end at most {MARGIN} nats above eight",
            ),
            contrast(
                "in both", "both", "self", f"two heads everywhere end at most {MARGIN} nats above two in self-attention"
            ),
        ),
        size=size,
    )
