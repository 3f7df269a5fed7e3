"""Claim A12 (Qiu et al. 2025): a sigmoid gate on what the heads have read lowers the loss.

    zoo run experiments/output_gate.py
    zoo run experiments/output_gate.py:small

The decoder of `zoo.lab.sizes` without a gate, with a gate for every element and with one for every
head, before the output projection, computed from the layer's input. The feed-forward layer is
narrowed so that all arms have as many parameters. Each arm uses its best learning rate, fitted with
separate seeds.

Stated beforehand, on `eval/loss` at the last step: with either gate the loss ends lower than without
(superiority, margin 0). Published: 0.045 nats for a gate of elements and 0.040 for one of heads, in a
mixture of experts of 15 B parameters after 400 B tokens, and 0.008 in a dense model of 1.7 B. The
authors of nanochat found no gain.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name


def get_experiment(size: str = "tiny") -> Experiment:
    """No gate, a gate of elements, a gate of heads."""

    def lower(gate: str) -> Contrast:
        return Contrast(
            f"a gate of {gate}",
            a=Side({"gate": {"elements": "elementwise", "heads": "head"}[gate]}),
            b=Side({"gate": "none"}),
            rule="superiority",
            margin=0.0,
            expected=f"with a gate of {gate} it ends lower than without",
        )

    return Experiment(
        name=sized_name("output_gate", size),
        question="Does an output gate of attention lower the loss at equal parameters?",
        base=decoder(size),
        factors={"gate": levels("model.attention.gate", "none", "elementwise", "head")},
        match=Match("parameters", "model.ffn.hidden_dim"),
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim("A12", "An output gate of attention lowers the loss", "Qiu et al. 2025, Gated Attention"),
        contrasts=(lower("elements"), lower("heads")),
        size=size,
    )
