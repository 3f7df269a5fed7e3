"""Tables of a sweep's report as plain JSON values: arms, differences, effects, contrasts."""

import math
from typing import Any

from zoo.lab.results.arm_effects import ArmEffect, contrast_effect, tokens_per_parameter
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.curves import final_values
from zoo.lab.results.decision_rules import rule_text
from zoo.lab.results.differences import arm_differences
from zoo.lab.results.effect_units import TokenFactor
from zoo.lab.results.factor_effects import estimate_effects
from zoo.lab.results.feature_gains import gain_lines
from zoo.lab.results.floor_lines import floor_lines
from zoo.lab.results.instability import Instability, instability
from zoo.lab.results.notes import read_notes
from zoo.lab.results.run_records import STATES
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import Verdict
from zoo.lab.statistics.paired import PairedDifference, spread


def sweep_record(sweep: SweepResults, verdict: Verdict) -> dict[str, Any]:
    """Returns the tables of a report; numbers that are not finite are None."""
    unstable = instability(sweep)
    return {
        "name": sweep.name,
        "question": sweep.question,
        "metric": sweep.metric,
        "verdict": verdict.overall,
        "paragraph": verdict.paragraph,
        "runs": {state: n for state in STATES if (n := sum(run.state == state for run in sweep.runs))},
        "arms": [_arm(sweep, arm.name, unstable[arm.name]) for arm in sweep.arms],
        "floors": [{"floor": line.name, "score": line.score} for line in floor_lines(sweep, sweep.metric)],
        "baseline": sweep.baseline_arm.label,
        "differences": [
            {"arm": one.arm.label, "factors": one.arm.factors}
            | _difference(one.difference)
            | {"testable": not one.why_not_testable, "why_not_testable": one.why_not_testable}
            | _units(one.effect)
            for one in arm_differences(sweep)
        ],
        "effects": [
            {"factors": list(effect.what), "levels": [list(pair) for pair in effect.levels]}
            | _difference(effect.difference)
            for effect in estimate_effects(sweep)
        ],
        "gains": gain_lines(sweep),
        "contrasts": [
            {
                "contrast": outcome.contrast.name,
                "a": sweep.arm(outcome.contrast.a.arm).label,
                "b": sweep.arm(outcome.contrast.b.arm).label,
                "rule": f"{outcome.contrast.rule}: {rule_text(outcome.contrast, sweep.unit)}",
                "outcome": outcome.outcome,
                **_difference(outcome.difference),
                **_units(contrast_effect(sweep, outcome.contrast, outcome.difference)),
            }
            for outcome in verdict.outcomes
        ],
        "caveats": sweep_caveats(sweep),
        "notes": read_notes(sweep.folder),
    }


def _units(effect: ArmEffect | None) -> dict[str, Any]:
    """Returns a difference in other units; None where a unit does not apply."""
    steps = effect and effect.steps
    return {
        "times_the_tokens": _factor(effect.tokens) if effect and effect.tokens else None,
        "steps_to_its_loss": steps
        and {"mean": steps.mean, "reached": len(steps.steps), "pairs": steps.pairs, "of": steps.baseline},
        "per_cent_of_the_gap": {
            name: {"value": gap.value, "low": _finite(gap.low), "high": _finite(gap.high), "floor": gap.floor}
            for name, gap in (effect.gaps if effect else {}).items()
        },
    }


def _factor(found: TokenFactor) -> dict[str, Any]:
    """Returns a token factor; a value or bound of `least` or `most` lies there or beyond."""
    return {
        "value": found.value,
        "low": _finite(found.low),
        "high": _finite(found.high),
        "least": found.least,
        "most": found.most,
        "reached": found.reached,
        "curve": found.basis,
    }


def _arm(sweep: SweepResults, name: str, unstable: Instability) -> dict[str, Any]:
    arm, values = sweep.arm(name), final_values(sweep, name, sweep.metric)
    found = spread(values.values())
    return {
        "arm": arm.label,
        "factors": arm.factors,
        "parameters": arm.parameters.get("total"),
        "tokens_per_parameter": tokens_per_parameter(sweep, name),
        "final": {str(seed): value for seed, value in values.items()},
        "mean": found and found.mean,
        "sd": found and _finite(found.sd),
        "finished": unstable.finished,
        "diverged": list(unstable.diverged),
        "far_off": None if unstable.far_off is None else list(unstable.far_off),
    }


def _difference(found: PairedDifference) -> dict[str, Any]:
    return {
        "mean": _finite(found.mean),
        "low": _finite(found.low),
        "high": _finite(found.high),
        "pairs": found.n,
        "p": _finite(found.p),
        "level": 1 - found.alpha,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
