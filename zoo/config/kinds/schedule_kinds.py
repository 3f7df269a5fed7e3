"""Kinds of learning-rate schedule."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import Field
from zoo.config.kinds.kind import Kind, KindTable

KIND = "schedule.kind"


def _hold_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if flat["schedule.hold"] and flat["schedule.warmup_steps"] <= 1:
        yield (
            f"schedule.hold=true has no effect with schedule.warmup_steps={flat['schedule.warmup_steps']}: it is for "
            "the steps of the warm-up"
        )


# Without the last two traits, any value may depend on `training.steps`, so a run cannot be
# extended.
SCHEDULE_KINDS = KindTable(
    KIND,
    traits={
        "final_fraction": "it ends at that share of the peak",
        "horizon_free": "its value at an update does not depend on `training.steps`",
        "decay_fraction": "it is constant after the warm-up and decays over that share of the steps, at the end",
    },
    kinds=(
        Kind(
            KIND,
            "constant",
            "stays at the peak",
            frozenset({"horizon_free"}),
            code="zoo.training.optimization.schedules:constant",
        ),
        Kind(
            KIND,
            "cosine",
            "half a cosine, down to `final_fraction` of the peak at the last step",
            frozenset({"final_fraction"}),
            code="zoo.training.optimization.schedules:cosine",
        ),
        Kind(
            KIND,
            "linear",
            "linear, down to `final_fraction` of the peak at the last step",
            frozenset({"final_fraction"}),
            code="zoo.training.optimization.schedules:linear",
        ),
        Kind(
            KIND,
            "polynomial",
            "(1 - progress)^`power`, down to `final_fraction` of the peak at the last step",
            frozenset({"final_fraction"}),
            fields=(Field("schedule.power", 2.0, float, "exponent; 1 is `linear`", above=0, traced=True),),
            code="zoo.training.optimization.schedules:polynomial",
        ),
        Kind(
            KIND,
            "inverse_sqrt",
            "peak * sqrt(warm-up / step) (Vaswani et al. 2017)",
            frozenset({"horizon_free"}),
            fields=(
                Field(
                    "schedule.hold",
                    False,
                    bool,
                    "the rate is at the peak during the warm-up, and does not rise to it (Raffel et al. 2020)",
                ),
            ),
            problems=_hold_problems,
            code="zoo.training.optimization.schedules:inverse_sqrt",
        ),
        Kind(
            KIND,
            "wsd",
            "warm-up, stable, then decay over the last `decay_fraction` of the steps (Hu et al. 2024)",
            frozenset({"final_fraction", "decay_fraction"}),
            fields=(
                Field(
                    "schedule.decay_shape",
                    "linear",
                    str,
                    "how the rate falls over the last steps, x their share that is done",
                    {"linear": "1 - x (Hu et al. 2024)", "sqrt": "1 - sqrt(x) (Hägele et al. 2024)"},
                ),
            ),
            code="zoo.training.optimization.schedules:wsd",
        ),
    ),
)


def tail_start(flat: Mapping[str, Any]) -> int:
    """Returns the number of updates before those that `optimizer.tail_average` averages over."""
    return flat["training.steps"] - round(flat["optimizer.tail_average"] * flat["training.steps"])


def horizon_free_updates(flat: Mapping[str, Any]) -> float:
    """Returns the number of first updates of a flat config whose learning rates would be the same
    with more `training.steps`; infinity for all.
    """
    kind = flat[KIND]
    if kind in SCHEDULE_KINDS.having("horizon_free"):
        return math.inf
    if kind in SCHEDULE_KINDS.having("decay_fraction"):
        steps = flat["training.steps"]
        decay = min(max(1, round(flat["schedule.decay_fraction"] * steps)), steps - flat["schedule.warmup_steps"])
        return steps - max(1, decay)
    return 0
