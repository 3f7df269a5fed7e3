"""Claim V52 (Liu et al. 2025): a mixture of experts ends below a dense decoder under AdamW and under
Muon.

    zoo run experiments/experts_muon.py
    zoo run experiments/experts_muon.py:rung1

The arms of `experts.py`, dense layers and 2 of 8 experts with as many FLOPs per token, each trained by
AdamW, and by Muon, which orthogonalises the momentum of each expert's matrices by itself and leaves
routers to AdamW. Parameters differ by design. Each arm has a learning rate of its own, found with
separate seeds. At size `tiny` decoders under AdamW end above a 5-gram model of bytes, so that their
contrast cannot be judged there.

Stated beforehand, on `eval/loss` at the last step: the mixture ends below the dense decoder under
each of the two (superiority, margin 0). How far the gains differ, (experts - dense) under Muon less
the same under AdamW, is the interaction of the two factors, which the report gives with its interval.
A rule compares two arms, so none judges it. Liu et al. 2025 train a mixture of 16 B parameters by
Muon, and compare it with no dense model.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name


def get_experiment(size: str = "tiny") -> Experiment:
    """Dense layers and experts under AdamW and Muon, at equal FLOPs."""
    base = {"model.ffn.bias": False, "model.ffn.kind": "swiglu", "model.ffn.match_parameters": True}
    experts = {"model.ffn.kind": "moe", "model.ffn.experts.balance_weight": 0.01}
    return Experiment(
        name=sized_name("experts_muon", size),
        question="Does a mixture of experts gain under AdamW and under Muon?",
        base=config.override(decoder(size), base),
        factors={
            "feed-forward": {"dense": {"model.ffn.kind": "swiglu"}, "experts": experts},
            "optimizer": levels("optimizer.kind", "adamw", "muon"),
        },
        match=Match("active_flops", "model.ffn.hidden_dim"),
        allow=("parameters",),
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim("V52", "A mixture of experts gains under AdamW and under Muon", "Liu et al. 2025, Moonlight"),
        contrasts=tuple(
            Contrast(
                f"experts end lower under {name}",
                a=Side({"feed-forward": "experts", "optimizer": optimizer}),
                b=Side({"feed-forward": "dense", "optimizer": optimizer}),
                rule="superiority",
                margin=0.0,
                expected=f"under {name} the mixture of experts ends below the dense decoder",
            )
            for optimizer, name in (("adamw", "AdamW"), ("muon", "Muon"))
        ),
        size=size,
    )
