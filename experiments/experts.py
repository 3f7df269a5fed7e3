"""Claim V40 (Shazeer et al. 2017; Fedus et al. 2021): a mixture of experts ends below a dense decoder
with as many operations per token.

    zoo run experiments/experts.py
    zoo run experiments/experts.py:rung1

The decoder of `zoo.lab.sizes` with SwiGLU, and with 8 experts of the same kind of which each token is
sent to 2, whose width is chosen so that both have the same FLOPs per token; the router's are counted.
The experts have about four times the parameters of the dense layers. No token is dropped, and the
loads are balanced by the loss of Fedus et al. with its weight of 0.01. Each arm has a learning rate of
its own, found with separate seeds. Decoders of size `tiny` end above a 5-gram model of bytes, so that
the claim cannot be judged there; `rung1` is the smallest size at which it was.

Stated beforehand, on `eval/loss` at the last step: the mixture ends lower (superiority). Parameters
differ by design.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side
from zoo.lab.sizes import decoder, rates, sized_name


def get_experiment(size: str = "tiny") -> Experiment:
    """Dense layers and experts at equal FLOPs."""
    claim = "A mixture of experts ends below a dense decoder with as many FLOPs per token"
    base = {"model.ffn.bias": False, "model.ffn.kind": "swiglu", "model.ffn.match_parameters": True}
    experts = {"model.ffn.kind": "moe", "model.ffn.experts.balance_weight": 0.01}
    return Experiment(
        name=sized_name("experts", size),
        question="Does a mixture of experts end below a dense decoder with as many FLOPs per token?",
        base=config.override(decoder(size), base),
        factors={"feed-forward": {"dense": {"model.ffn.kind": "swiglu"}, "experts": experts}},
        match=Match("active_flops", "model.ffn.hidden_dim"),
        allow=("parameters",),
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim("V40", claim, "Shazeer et al. 2017; Fedus et al. 2021"),
        contrasts=(
            Contrast(
                "experts end lower",
                a=Side({"feed-forward": "experts"}),
                b=Side({"feed-forward": "dense"}),
                rule="superiority",
                margin=0.0,
                expected="the mixture of experts ends below the dense decoder",
            ),
        ),
        size=size,
    )
