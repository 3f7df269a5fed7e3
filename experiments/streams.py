"""Claim V45 (Zhu et al. 2024; Xie et al. 2025): several residual streams end below pre-norm's one.

    zoo run experiments/streams.py
    zoo run experiments/streams.py:small
    zoo run experiments/streams.py:gpu

The decoder of `zoo.lab.sizes` with pre-norm; with 4 residual streams and weights of each token
(hyper-connections); and with doubly stochastic matrices between the streams (mHC). All three begin
as the same function of a token. The width of the feed-forward layers gives them equally many
operations, those of the streams among them. Each arm uses its best learning rate, fitted with
separate seeds.

Stated beforehand, on `eval/loss` at the last step (superiority, margin 0):

* mHC ends below pre-norm.
* Hyper-connections end below pre-norm.

Published: a loss 0.028 lower on C4, for a mixture of experts of 7B parameters and hyper-connections
(Zhu et al. 2024); clearly worse than pre-norm at 1.2B parameters, and divergence at 3B
(arXiv:2605.20798). A verdict of the opposite sign agrees with the second.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

STREAMS = {"mhc": "mHC", "hyper": "hyper-connections"}


def get_experiment(size: str = "tiny") -> Experiment:
    """Pre-norm, hyper-connections, and mHC."""
    return Experiment(
        name=sized_name("streams", size),
        question="Do several residual streams lower the loss?",
        base=decoder(size),
        factors={"residual": levels("model.norm.placement", "pre", *STREAMS)},
        # Operations are matched to within 1 %.
        allow=("parameters", "flops"),
        match=Match("flops", "model.ffn.hidden_dim"),
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim(
            "V45", "Several residual streams lower the loss", "Zhu et al. 2024, Hyper-Connections; Xie et al. 2025, mHC"
        ),
        contrasts=tuple(
            Contrast(
                f"{name} helps",
                a=Side({"residual": placement}),
                b=Side({"residual": "pre"}),
                rule="superiority",
                margin=0.0,
                expected=f"{name} ends below pre-norm",
            )
            for placement, name in STREAMS.items()
        ),
        size=size,
    )
