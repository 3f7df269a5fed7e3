"""Numbers of a config that a program takes as arguments, so that runs which differ in nothing else share one program.

A program depends on whether such a number is 0, where that leaves a part out, and on nothing else of it.
"""

from collections.abc import Mapping
from typing import Any, Self

# Beside these, every dropout rate there is.
NUMBERS = (
    "optimizer.learning_rate", "optimizer.weight_decay", "optimizer.beta1", "optimizer.beta2", "optimizer.epsilon", "optimizer.clip_norm",
    "schedule.warmup_steps", "schedule.final_fraction",
    "objective.label_smoothing", "objective.z_loss", "objective.distillation.kl", "objective.distillation.temperature",
)


class Rate(float):
    """A dropout rate that knows which field it is the value of, whatever part of a config it is handed on in.

    Attributes:
        path: of the field, e.g. "model.decoder.dropout".
    """

    path: str

    def __new__(cls, value: float, path: str) -> Self:
        made = super().__new__(cls, value)
        made.path = path
        return made

    def __getnewargs__(self) -> tuple[float, str]:
        return float(self), self.path


def is_rate(path: str) -> bool:
    """Whether a field is a dropout rate of a model."""
    return path.startswith("model.") and path.endswith(".dropout")


def is_number(path: str) -> bool:
    """Whether a program takes the field's value as an argument."""
    return path in NUMBERS or is_rate(path)


def numbers_of(flat: Mapping[str, Any]) -> dict[str, float]:
    """{path: value} of the numbers in a flat config, in its order."""
    return {path: float(value) for path, value in flat.items() if is_number(path)}
