"""Claim A6 (Vaswani et al. 2017, appendix): heads learn different patterns.

    zoo run experiments/head_patterns.py
    zoo run experiments/head_patterns.py:small

The decoder of `zoo.lab.sizes` with 2, 4 and 8 heads at one width. The measure is `head_divergence`:
the Jensen-Shannon divergence of what two heads of a layer attend to, in nats, as a mean over all
pairs of heads, layers and queries of held-out rows; 0 for equal heads, ln 2 = 0.69 for heads
without a common key. `zoo draw attention RUN` draws the maps of each head.

Stated beforehand: after training it is more than 0.05 nats above its value at initialisation
(superiority), for each number of heads.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, sized_name

MARGIN = 0.05
HEADS = (2, 4, 8)
MEASURE = "measured/head_divergence"


def get_experiment(size: str = "tiny") -> Experiment:
    """Three numbers of heads."""
    return Experiment(
        name=sized_name("head_patterns", size),
        question="Do the heads of a layer learn to attend to different things?",
        base=decoder(size),
        factors={"heads": levels("model.attention.num_heads", *HEADS)},
        claim=Claim("A6", "Heads learn different patterns", "Vaswani et al. 2017, appendix"),
        contrasts=tuple(
            Contrast(
                f"{heads} heads learn to differ",
                a=Side({"heads": str(heads)}, MEASURE),
                b=Side({"heads": str(heads)}, f"{MEASURE}@initial"),
                rule="superiority",
                margin=MARGIN,
                expected=f"{heads} heads end more than {MARGIN} nats further apart than they start",
            )
            for heads in HEADS
        ),
        size=size,
    )
