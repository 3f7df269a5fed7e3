"""Claim N8 (He et al. 2016): without residual connections, deep stacks do not train.

    zoo run experiments/residual.py
    zoo run experiments/residual.py:small

The decoder of `zoo.lab.sizes` with and without residual connections, with 2 and with 8 layers. Each
arm uses its best learning rate, fitted with separate seeds: without them only small rates may work.

Stated beforehand, on `eval/loss` at the last step:

* With 8 layers, residual connections end more than 0.3 nats below none (superiority).
* Without residual connections, 2 layers end more than 0.1 nats below 8 (superiority): depth itself
  hurts.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name


def get_experiment(size: str = "tiny") -> Experiment:
    """Residual connections on and off, shallow and deep."""

    def arm(residual: str, depth: str) -> Side:
        return Side({"residual": residual, "depth": depth})

    return Experiment(
        name=sized_name("residual", size),
        question="Do deep stacks train without residual connections?",
        base=decoder(size),
        factors={"residual": levels("model.residual", True, False), "depth": levels("model.num_layers", 2, 8)},
        tune=rates(size, 0.04, 0.1, 0.4, 1, 2.5),
        # The contrast across depths is about trainability, not about size.
        allow=("parameters", "flops"),
        claim=Claim(
            "N8",
            "Without residual connections, deep stacks do not train",
            "He et al. 2016, Deep Residual Learning",
            floor="unigram",
            floor_reason="whether a stack trains at all shows before it has learned contexts",
        ),
        contrasts=(
            Contrast(
                "deep stacks need them",
                a=arm("true", "8"),
                b=arm("false", "8"),
                rule="superiority",
                margin=0.3,
                expected="of 8 layers, those with residual connections end more than 0.3 nats below those without",
            ),
            Contrast(
                "depth hurts without them",
                a=arm("false", "2"),
                b=arm("false", "8"),
                rule="superiority",
                margin=0.1,
                expected="without them 2 layers end more than 0.1 nats below 8",
            ),
        ),
        size=size,
    )
