"""Claim V41 (Yang et al. 2024, Gated DeltaNet): a hybrid of three layers of Gated DeltaNet and one of
full attention is as good as full attention in every layer, at equal operations, and better than
Gated DeltaNet alone.

    zoo run experiments/gated_delta.py
    zoo run experiments/gated_delta.py:small
    zoo run experiments/gated_delta.py:gpu

The decoder of `zoo.lab.sizes`: full attention with RoPE in every layer; in each group of four
layers three of Gated DeltaNet, without positions, before one of full attention (Qwen3-Next); and
Gated DeltaNet in every layer. The width of the feed-forward layers gives all arms equally many
operations, which are counted for rows of this length: full attention has less of them in short
rows, and a layer with a state as many for each token in any row. Each arm uses its best learning
rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step:

* The hybrid ends at most 0.02 nats above full attention (non-inferiority), 2 % of perplexity.
* The hybrid ends below Gated DeltaNet alone (superiority, margin 0).

Published: models of 1.3B parameters, 100B tokens, perplexity on WikiText: Gated DeltaNet 16.42,
Transformer 18.53, and hybrids with windows of attention 15.91 to 16.00 (Yang et al. 2024, table 3).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side
from zoo.lab.sizes import decoder, rates, sized_name, whole_patterns

MARGIN = 0.02
STATE = {"model.attention.kind": "gated_delta", "model.position.kind": "none"}
HYBRID = {
    "model.layers.pattern": ("state", "state", "state", "full"),
    "model.layers.kinds.full.attention.kind": "softmax",
    **{path.replace("model.", "model.layers.kinds.state.", 1): value for path, value in STATE.items()},
}


def get_experiment(size: str = "tiny") -> Experiment:
    """Full attention, a hybrid, and Gated DeltaNet."""
    hybrid = Side({"layers": "hybrid"})
    return Experiment(
        name=sized_name("gated_delta", size),
        question="Can a state of one size replace attention in three layers of four?",
        base=decoder(size, whole_patterns(size, len(HYBRID["model.layers.pattern"]))),
        factors={"layers": {"full": {}, "hybrid": HYBRID, "state": STATE}},
        # Operations are matched to within 1 %.
        allow=("parameters", "flops"),
        match=Match("flops", "model.ffn.hidden_dim"),
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim(
            "V41",
            "A hybrid of Gated DeltaNet and attention loses nothing against attention in every layer",
            "Yang et al. 2024, Gated DeltaNet; Qwen Team 2025, Qwen3-Next",
        ),
        contrasts=(
            Contrast(
                "the hybrid costs nothing",
                a=hybrid,
                b=Side({"layers": "full"}),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"the hybrid ends at most {MARGIN} nats above full attention",
            ),
            Contrast(
                "a layer of attention helps",
                a=hybrid,
                b=Side({"layers": "state"}),
                rule="superiority",
                margin=0.0,
                expected="the hybrid ends below Gated DeltaNet alone",
            ),
        ),
        size=size,
    )
