"""The final metric of every arm against a baseline, with the uncertainty that verdicts count."""

from zoo.lab.declarations import Contrast, Side
from zoo.lab.metrics import equal_by_chance
from zoo.lab.results.curves import final_values
from zoo.lab.results.noise import known_noise, regrets
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.statistics.paired import PairedDifference, paired_difference


def against_baseline(sweep: SweepResults, arm: str, baseline: str) -> Contrast:
    """Returns the contrast of an arm, a, with a baseline, b, in the sweep's metric, which no claim
    states.
    """
    return Contrast("", Side(arm, sweep.metric), Side(baseline, sweep.metric), "superiority", 0.0, "")


def baseline_differences(sweep: SweepResults) -> dict[str, PairedDifference]:
    """Returns the final metric of every other arm minus that of the baseline, paired by seed.

    As in verdicts, the intervals have the uncertainty of tuning and are not narrower than other runs
    say the noise is (`zoo.lab.statistics.paired`).
    """
    baseline = sweep.baseline_arm
    values = final_values(sweep, baseline.name, sweep.metric)
    found = {}
    for arm in sweep.arms:
        if arm is baseline:
            continue
        contrast = against_baseline(sweep, arm.name, baseline.name)
        found[arm.name] = paired_difference(
            final_values(sweep, arm.name, sweep.metric),
            values,
            sweep.alpha,
            known_noise(sweep, contrast),
            regrets(sweep, contrast),
            equal_by_chance(sweep.metric),
        )
    return found
