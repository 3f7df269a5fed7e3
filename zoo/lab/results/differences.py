"""The difference of every arm from a baseline, whether or not a claim was stated: the answer of a
sweep.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from zoo.lab.results.arm_effects import ArmEffect, baseline_effects
from zoo.lab.results.baseline_differences import against_baseline, baseline_differences
from zoo.lab.results.contrast_verdict import why_no_interval, why_not_comparable
from zoo.lab.results.schema import Arm
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.testability import Reason
from zoo.lab.statistics.paired import PairedDifference, holm

# Each of so many arms is compared with each other one; with more, all with one baseline.
MAX_BASELINES = 16


@dataclass(frozen=True)
class ArmDifference:
    """An arm against the baseline.

    Attributes:
        difference: final metric of the arm minus that of the baseline, paired by seed.
        p_holm: p of the difference, corrected for the number of arms (Holm 1979); NaN without an
            interval.
        effect: the difference in other units.
        reason: why it answers no question about the arms; None if it can.
    """

    arm: Arm
    baseline: Arm
    difference: PairedDifference
    p_holm: float
    effect: ArmEffect
    reason: Reason | None

    @property
    def testable(self) -> str:
        """ "yes" or "no"."""
        return "no" if self.reason else "yes"

    @property
    def why_not_testable(self) -> str:
        """The reason in words, with the values of the arms; empty without one."""
        return str(self.reason or "")


def arm_differences(sweep: SweepResults) -> list[ArmDifference]:
    """Returns the differences of all arms but the baseline, in the order of the arms."""
    found, effects, baseline = baseline_differences(sweep), baseline_effects(sweep), sweep.baseline_arm
    corrected = holm([difference.p for difference in found.values()])
    return [
        ArmDifference(
            sweep.arm(name),
            baseline,
            difference,
            p,
            effects[name],
            why_not_comparable(sweep, against_baseline(sweep, name, baseline.name)) or _why_no_interval(difference),
        )
        for (name, difference), p in zip(found.items(), corrected, strict=True)
    ]


def _why_no_interval(difference: PairedDifference) -> Reason | None:
    why = why_no_interval(difference)
    return Reason(why) if why else None


def reasons(found: Iterable[ArmDifference]) -> list[str]:
    """Returns a line for each reason why differences are not testable, with the arms that it is
    about.
    """
    arms: dict[str, list[str]] = {}
    for one in found:
        if one.reason:
            # The values of the arms are in the tables, and would tell equal reasons apart.
            arms.setdefault(one.reason.cause, []).append(one.arm.label)
    return [f"Not testable: {', '.join(labels)}: {reason}." for reason, labels in arms.items()]


def baselines(sweep: SweepResults) -> list[Arm]:
    """Returns the arms that a report compares the others with: all, or the chosen one of many."""
    return sweep.arms if len(sweep.arms) <= MAX_BASELINES else [sweep.baseline_arm]
