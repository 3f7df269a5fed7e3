"""Claim P7 (Su et al. 2021; EleutherAI 2021): RoPE learns faster than sinusoidal positions, in an
encoder and in a Performer.

    zoo run experiments/rope_or_sinusoids.py
    zoo run experiments/rope_or_sinusoids.py:small

An encoder that predicts masked tokens, with softmax attention and with Performer's linear one, with
RoPE and with sinusoids. Embeddings are initialised with a standard deviation of 1, the scale of the
sinusoids. Each arm uses its best learning rate of a shared grid, found with a separate seed.
"Reaches a given loss in fewer steps" is tested as "has a lower loss after the same steps", which is
equivalent while the loss falls.

Stated beforehand, on `eval/loss` at the last step: with RoPE it ends below sinusoids (superiority,
margin 0), with either attention.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name


def get_experiment(size: str = "tiny") -> Experiment:
    """RoPE and sinusoids, softmax and Performer."""

    def arm(positions: str, attention: str) -> Side:
        return Side({"positions": positions, "attention": attention})

    return Experiment(
        name=sized_name("rope_or_sinusoids", size),
        question="Does RoPE learn faster than sinusoidal positions?",
        base=config.override(
            decoder(size),
            {"model.architecture": "encoder", "objective.kind": "masked", "model.init.embedding_std": 1.0},
        ),
        factors={
            "positions": levels("model.position.kind", "rope", "sinusoidal"),
            "attention": levels("model.attention.kind", "softmax", "performer"),
        },
        tune=rates(size),
        # A Performer has other FLOPs than softmax; the contrasts compare arms of one attention.
        allow=("flops",),
        claim=Claim(
            "P7",
            "RoPE reaches a given loss in fewer steps than sinusoidal positions, in an encoder and in a Performer",
            "Su et al. 2021, RoFormer, sections 4.2 and 4.4; EleutherAI 2021, Rotary Embeddings",
        ),
        contrasts=tuple(
            Contrast(
                f"RoPE is ahead with {name}",
                a=arm("rope", attention),
                b=arm("sinusoidal", attention),
                rule="superiority",
                margin=0.0,
                expected=f"with {name}, RoPE ends below sinusoids",
            )
            for attention, name in (("softmax", "softmax attention"), ("performer", "a Performer's attention"))
        ),
        size=size,
    )
