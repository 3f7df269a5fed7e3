"""Claim V46 (Kimi Team 2026): layers that choose among all earlier outputs end below pre-norm.

    zoo run experiments/depth_connections.py
    zoo run experiments/depth_connections.py:small
    zoo run experiments/depth_connections.py:gpu

The decoder of `zoo.lab.sizes` with pre-norm, with attention over depth, with the averages of
DenseFormer, with U-net skips, and with the sums of MUDDFormer. The width of the feed-forward layers
gives them equally many operations. Each arm uses its best learning rate, fitted with separate
seeds.

Stated beforehand, on `eval/loss` at the last step (superiority, margin 0): each of the four ends
below pre-norm.

Published: attention over depth reaches the loss of a baseline that is trained with 1.25 times the
compute (Kimi Team 2026), MUDDFormer that of one with 1.8 to 2.4 times the compute (Xiao et al. 2025).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

CONNECTIONS = {
    "depth_attention": "attention over depth",
    "denseformer": "DenseFormer",
    "unet": "U-net skips",
    "mudd": "MUDDFormer",
}


def get_experiment(size: str = "tiny") -> Experiment:
    """Pre-norm, and four ways to read the outputs of earlier layers."""
    return Experiment(
        name=sized_name("depth_connections", size),
        question="Do layers gain from the outputs of all earlier ones?",
        base=decoder(size),
        factors={"connections": levels("model.norm.placement", "pre", *CONNECTIONS)},
        # Operations are matched to within 1 %.
        allow=("parameters", "flops"),
        match=Match("flops", "model.ffn.hidden_dim"),
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim(
            "V46",
            "Layers gain from the outputs of all earlier ones",
            "Kimi Team 2026, Attention Residuals; Pagliardini et al. 2024, DenseFormer; Xiao et al. 2025; "
            "Jordan et al. 2024",
        ),
        contrasts=tuple(
            Contrast(
                f"a gain by {name}",
                a=Side({"connections": placement}),
                b=Side({"connections": "pre"}),
                rule="superiority",
                margin=0.0,
                expected=f"with {name} the model ends below pre-norm",
            )
            for placement, name in CONNECTIONS.items()
        ),
        size=size,
    )
