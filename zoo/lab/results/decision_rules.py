"""The rules by which the interval of a difference decides a contrast, stated before any run.

Let d = a - b for losses (lower is better), or b - a for accuracies and other scores (higher is
better), paired by seed, and [low, high] its interval. Then

    superiority     holds if high < -margin,               refuted if low > -margin
    non_inferiority holds if high < margin,                refuted if low > margin
    equivalence     holds if -margin < low, high < margin, refuted if low > margin or high < -margin
    equal           holds if low <= 0 <= high,             refuted otherwise

and undecided otherwise. With the level alpha of the sweep's design (5 % for a single look) the
interval of a superiority is two-sided at alpha. Whether a non-inferiority or an equivalence holds is a
one-sided question at each bound, so theirs is two-sided at 2 alpha (two one-sided tests, Schuirmann
1987); refutations need alpha under every rule.
"""

import math
from collections.abc import Callable

from zoo.lab.declarations import Contrast
from zoo.lab.metrics import higher_is_better, unit_suffix
from zoo.lab.statistics.paired import PairedDifference


def decide(rule: str, margin: float, low: float, high: float) -> str:
    """Applies a rule to the interval of d; infinite bounds are allowed, NaN decides nothing."""
    if rule == "equal":
        return "holds" if low <= 0 <= high else "undecided" if math.isnan(low) else "refuted"
    if rule == "equivalence":
        holds, refuted = -margin < low and high < margin, low > margin or high < -margin
    else:
        bound = -margin if rule == "superiority" else margin
        holds, refuted = high < bound, low > bound
    return "holds" if holds else "refuted" if refuted else "undecided"


def refutation_p(rule: str, margin: float, difference: PairedDifference) -> float:
    """Returns the two-sided p of d against a rule; `decide` refutes at every level above it."""
    if rule == "equal":
        return difference.p
    above = difference.tail({"superiority": -margin}.get(rule, margin), above=True)
    tail = min(above, difference.tail(-margin, above=False)) if rule == "equivalence" else above
    return min(1.0, 2 * tail)


def rule_text(contrast: Contrast, unit_of: Callable[[str], str] = unit_suffix) -> str:
    """Returns the rule as a condition on a and b."""
    margin = f"{contrast.margin:g}{unit_of(contrast.a.metric)}"
    better, worse = ("above", "below") if higher_is_better(contrast.a.metric) else ("below", "above")
    return {
        "superiority": f"a {better} b by more than {margin}" if contrast.margin else f"a {better} b",
        "non_inferiority": f"a at most {margin} {worse} b",
        "equivalence": f"a within {margin} of b",
        "equal": "a and b do not differ",
    }[contrast.rule]


def rule_name(contrast: Contrast, unit_of: Callable[[str], str]) -> str:
    """Returns the rule with its margin, `superiority by more than 0.02 nats`."""
    if not contrast.margin:
        return contrast.rule.replace("_", "-")
    relation = "by more than" if contrast.rule == "superiority" else "within"
    return f"{contrast.rule.replace('_', '-')} {relation} {contrast.margin:g}{unit_of(contrast.a.metric)}"
