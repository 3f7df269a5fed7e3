"""Kinds of learning-rate schedule."""

from zoo.config.field import Field
from zoo.config.kinds.kind import Kind, KindTable

KIND = "schedule.kind"

# Traits: "final_fraction" (it ends at that share of the peak).
SCHEDULE_KINDS = KindTable(
    KIND,
    (
        Kind(KIND, "constant", "stays at the peak"),
        Kind(
            KIND,
            "cosine",
            "half a cosine, down to `final_fraction` of the peak at the last step",
            frozenset({"final_fraction"}),
        ),
        Kind(
            KIND,
            "linear",
            "linear, down to `final_fraction` of the peak at the last step",
            frozenset({"final_fraction"}),
        ),
        Kind(KIND, "inverse_sqrt", "peak * sqrt(warm-up / step) (Vaswani et al. 2017)"),
        Kind(
            KIND,
            "wsd",
            "warm-up, stable, then linear decay over the last `decay_fraction` of the steps (Hu et al. 2024)",
            frozenset({"final_fraction"}),
            (
                Field(
                    "schedule.decay_fraction",
                    0.2,
                    float,
                    "share of the steps in which `wsd` decays",
                    above=0,
                    maximum=1,
                ),
            ),
        ),
    ),
)
