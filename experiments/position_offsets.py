"""Claim P11: learned positions overfit to the positions seen in training.

    zoo run experiments/position_offsets.py
    zoo run experiments/position_offsets.py:small

The decoder of `zoo.lab.sizes` on rows of T tokens, every other of which begins at position T
instead of 0. Each of the 2 T positions is trained, but no row has positions on both sides of T. The
measure is `offset_gap`, in `measures/offset_gap.py`: the loss of held-out rows that begin at T / 2,
within the trained positions, minus the loss of the same rows at the offsets of training. The arms
are learned vectors, sinusoids and RoPE, for which the gap is 0 up to rounding. Embeddings are
initialised with a standard deviation of 1, the scale of the sinusoids.

Stated beforehand, on that gap after training:

* It is more than 0.1 nats larger for learned positions than for RoPE (superiority of RoPE).
* It is larger for learned positions than for sinusoids (superiority of these, margin 0).
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, sized_name

MARGIN = 0.1


def get_experiment(size: str = "tiny") -> Experiment:
    """Three position schemes."""
    base = decoder(size)

    def arm(positions: str) -> Side:
        return Side({"positions": positions}, "measured/offset_gap")

    return Experiment(
        name=sized_name("position_offsets", size),
        question="Do learned positions serve where rows begin elsewhere than in training?",
        base=config.override(
            base, {"data.position_offsets": (0, base.data.sequence_length), "model.init.embedding_std": 1.0}
        ),
        factors={"positions": levels("model.position.kind", "learned", "sinusoidal", "rope")},
        # The arms differ by the table.
        allow=("parameters",),
        claim=Claim("P11", "Learned positions overfit to where things stood in training", "lecture"),
        contrasts=(
            Contrast(
                "learned positions do",
                a=arm("rope"),
                b=arm("learned"),
                rule="superiority",
                margin=MARGIN,
                expected=f"elsewhere the loss grows by more than {MARGIN} nats more with learned positions than with "
                "RoPE",
            ),
            Contrast(
                "more than sinusoids",
                a=arm("sinusoidal"),
                b=arm("learned"),
                rule="superiority",
                margin=0.0,
                expected="elsewhere the loss grows by more with learned positions than with sinusoids",
            ),
        ),
        size=size,
    )
