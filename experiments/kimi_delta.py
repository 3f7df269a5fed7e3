"""Claim V53 (Kimi Team 2025, Kimi Linear): in a hybrid, a decay of each channel ends below one of each
head.

    zoo run experiments/kimi_delta.py
    zoo run experiments/kimi_delta.py:rung1

The decoder of `zoo.lab.sizes`: the first three layers of each four have a state and no positions, the
fourth has full attention with RoPE. The states are those of Gated DeltaNet, with one decay for
each head, or of Kimi Delta Attention, with one for each channel of the keys. The width of the
feed-forward layers gives both arms equally many operations. Each arm has a learning rate of its own,
found with separate seeds.

Stated beforehand, on `eval/loss` at the last step: Kimi Delta Attention ends lower (superiority,
margin 0).

Published: a finer decay makes better use of a state of limited size (Kimi Team 2025, abstract).
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side
from zoo.lab.sizes import decoder, rates, sized_name, whole_patterns

KIND = "model.layers.kinds.state.attention.kind"
HYBRID = {
    "model.layers.pattern": ("state", "state", "state", "full"),
    "model.layers.kinds.state.position.kind": "none",
    "model.layers.kinds.full.attention.kind": "softmax",
}


def get_experiment(size: str = "tiny") -> Experiment:
    """Hybrids of Gated DeltaNet and of Kimi Delta Attention."""
    return Experiment(
        name=sized_name("kimi_delta", size),
        question="Does a decay of each channel end below one of each head?",
        base=config.override(
            decoder(size, whole_patterns(size, len(HYBRID["model.layers.pattern"]))), HYBRID | {KIND: "gated_delta"}
        ),
        factors={"state": {"gated delta": {KIND: "gated_delta"}, "kimi delta": {KIND: "kimi_delta"}}},
        # Operations are matched to within 1 %.
        allow=("parameters", "flops"),
        match=Match("flops", "model.ffn.hidden_dim"),
        tune=rates(size),
        claim=Claim("V53", "In a hybrid, a decay of each channel ends below one of each head", "Kimi Team 2025"),
        contrasts=(
            Contrast(
                "decays of channels end lower",
                a=Side({"state": "kimi delta"}),
                b=Side({"state": "gated delta"}),
                rule="superiority",
                margin=0.0,
                expected="Kimi Delta Attention ends below Gated DeltaNet",
            ),
        ),
        size=size,
    )
