"""Tables of what the arms reached and how they compare: contrasts, differences, factor effects."""

import math
from collections.abc import Mapping, Sequence

from zoo.lab.formatting import confidence_level, interval, number, plus_minus, rounded_mean, significant
from zoo.lab.measures import MEASURE_PREFIX, measure_metrics
from zoo.lab.metrics import higher_is_better, unit_suffix
from zoo.lab.report.html_tables import Cell, arm_cell, numeric, state_cell, table
from zoo.lab.report.progress_line import progress_line
from zoo.lab.report.run_tables import SPEED_COLUMNS, count_states, median_speed, speed_cells
from zoo.lab.results.arm_effects import (
    ArmEffect,
    baseline_effects,
    contrast_effect,
    hardest_gap,
    tokens_per_parameter,
    total_parameters,
)
from zoo.lab.results.curves import baseline_differences, final_values, loss_by_length
from zoo.lab.results.effect_units import DECAYING, SCHEDULE_ERROR
from zoo.lab.results.factor_effects import FactorEffect
from zoo.lab.results.floor_lines import floor_lines, floors_by_length, floors_note
from zoo.lab.results.instability import FAR_OFF, instability
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import Verdict, rule_text
from zoo.lab.statistics.paired import PairedDifference, holm, spread

TIMES_THE_TOKENS, STEPS_TO_ITS_LOSS = "times the tokens", "steps to its loss"


def contrast_table(sweep: SweepResults, verdict: Verdict) -> str:
    """Returns a table of the contrasts: sides, difference, interval, rule and outcome.

    While runs are left, a contrast without a pair has no outcome yet.
    """
    rows, running = [], bool(progress_line(sweep))
    effects = [contrast_effect(sweep, outcome.contrast, outcome.difference) for outcome in verdict.outcomes]
    in_tokens = any(effect and effect.tokens for effect in effects)
    for outcome, effect in zip(verdict.outcomes, effects, strict=True):
        contrast, difference = outcome.contrast, outcome.difference
        same = contrast.a.metric == contrast.b.metric == sweep.metric
        sides = [
            sweep.arm(side.arm).label + ("" if same else f" at {side.metric}") for side in (contrast.a, contrast.b)
        ]
        rows.append(
            [
                Cell(contrast.name),
                arm_cell(sides[0]),
                arm_cell(sides[1]),
                numeric(rounded_mean(difference.mean, difference.low, difference.high)),
                numeric(interval(difference.low, difference.high)),
                *([_tokens_cell(effect)] if in_tokens else []),
                numeric(_effect(difference)),
                numeric(str(difference.n)),
                Cell(f"{contrast.rule.replace('_', '-')}: {rule_text(contrast, sweep.unit)}", "wide"),
                state_cell("no pair yet" if running and not difference.n else outcome.outcome),
            ]
        )
    header = [
        "contrast",
        "a",
        "b",
        "a − b",
        f"{confidence_level(sweep.alpha)} interval",
        *([TIMES_THE_TOKENS] if in_tokens else []),
        "effect",
        "pairs",
        "rule",
        "outcome",
    ]
    return table("Contrasts, stated before the runs", header, rows, range(3, 7 + in_tokens))


def _tokens_cell(effect: ArmEffect | None) -> Cell:
    return Cell(effect.tokens_text if effect else "–", "wide")


def _effect(difference: PairedDifference) -> str:
    # With two pairs the small-sample correction is 0.
    return f"{difference.effect:.2f}" if difference.n > 2 and math.isfinite(difference.effect) else "–"


def arms_table(sweep: SweepResults) -> str:
    """Returns a table of the arms: parameters, speed and results."""
    factors = list(dict.fromkeys(key for arm in sweep.arms for key in arm.factors))
    # The label of an arm names a single factor already.
    factors = factors if len(factors) > 1 else []
    best, seen_is = (max, "highest seen") if higher_is_better(sweep.metric) else (min, "lowest seen")
    rows, unstable = [], instability(sweep)
    for arm in sweep.arms:
        runs = sweep.runs_of(arm.name)
        final = spread(final_values(sweep, arm.name, sweep.metric).values())
        seen = [value for run in runs if (value := run.best(sweep.metric)) is not None]
        rows.append(
            [
                arm_cell(arm.label),
                *(Cell(arm.factors.get(key, "–")) for key in factors),
                numeric(_parameters(sweep, arm.name)),
                numeric(number(significant(tokens_per_parameter(sweep, arm.name), 2), 2)),
                *speed_cells(median_speed(runs), next((run for run in runs if run.meta), None)),
                numeric(plus_minus(final.mean, final.sd) if final else "–"),
                numeric(number(best(seen, default=None))),
                Cell(unstable[arm.name].text),
                Cell(count_states(runs), "short"),
            ]
        )
    header = [
        "arm",
        *factors,
        "parameters",
        "tokens / parameter",
        *SPEED_COLUMNS,
        f"final {sweep.metric}",
        seen_is,
        "unstable",
        "runs",
    ]
    n = len(factors)
    missing = [Cell("–")] * n + [numeric("–")] * (2 + len(SPEED_COLUMNS))
    floors = floor_lines(sweep, sweep.metric)
    rows += [
        [_floor_cell(line.name), *missing, numeric(number(line.score)), numeric("–"), Cell("–"), Cell("–", "short")]
        for line in floors
    ]
    seen = (
        f"final: mean ± SD over finished seeds; {seen_is}: over all runs; unstable: seeds that diverged or end more "
        f"than {FAR_OFF:g} SD of the noise from what their arm and seed predict"
    )
    if note := floors_note(sweep):
        seen += f"; floors: {'models without depth, ' if floors else ''}{note}"
    caption = f"Arms (tokens/s: median; MFU: operations of the model as a share of the devices' peak; {seen})"
    return table(caption, header, rows, range(1 + n, 8 + n))


def _parameters(sweep: SweepResults, arm: str) -> str:
    """Returns the number of parameters of an arm, and with experts that of the active ones."""
    active = total_parameters(sweep, arm, "active")
    return number(total_parameters(sweep, arm)) + (f" ({number(active)} active)" if active else "")


def _floor_cell(name: str) -> Cell:
    return Cell(f"floor: {name}")


def measured_table(sweep: SweepResults) -> str:
    """Returns a table of the measures of the trained runs by arm; empty without measures."""
    metrics = [metric for name in sweep.measures for metric in measure_metrics(name) if metric in sweep.metrics()]
    if not metrics:
        return ""
    rows = []
    for arm in sweep.arms:
        found = [spread(final_values(sweep, arm.name, metric).values()) for metric in metrics]
        rows.append(
            [
                arm_cell(arm.label),
                *(numeric("–" if value is None else plus_minus(value.mean, value.sd)) for value in found),
            ]
        )
    header = [
        "arm",
        *(
            metric.removeprefix(MEASURE_PREFIX).replace("_", " ") + unit_suffix(metric).replace(" ", ", ", 1)
            for metric in metrics
        ),
    ]
    return table("Measures of the trained runs (mean ± SD over seeds)", header, rows, range(1, len(header)))


def lengths_table(sweep: SweepResults) -> str:
    """Returns a table of the final loss at each evaluation length; empty without other lengths."""
    found = loss_by_length(sweep)
    if found is None:
        return ""
    rows = []
    for arm in sweep.arms:
        cells = [arm_cell(arm.label)]
        for length in found.lengths:
            value = found.values[arm.name][length]
            if value is not None:
                cells.append(numeric(plus_minus(value.mean, value.sd)))
            else:
                ended = all(run.finished for run in sweep.runs_of(arm.name))
                cells.append(
                    numeric(
                        "cannot be evaluated"
                        if (arm.name, length) in found.impossible
                        else "not finite"
                        if ended
                        else "not finished"
                    )
                )
        rows.append(cells)
    for name, scores in floors_by_length(sweep, found).items():
        rows.append([_floor_cell(name), *(numeric(number(scores.get(length))) for length in found.lengths)])
    header = ["arm", *(f"{length:,}" + (" (trained)" if length == found.trained else "") for length in found.lengths)]
    caption = f"Final {sweep.with_unit(found.metric)}, by evaluation length (mean ± SD over seeds)"
    return table(caption, header, rows, range(1, len(header)))


def differences_table(sweep: SweepResults) -> str:
    """Returns a table of every arm against the first one, paired by seed."""
    rows = []
    against, effects = baseline_differences(sweep), baseline_effects(sweep)
    units = [
        *([TIMES_THE_TOKENS] if any(effect.tokens for effect in effects.values()) else []),
        *([STEPS_TO_ITS_LOSS] if any(effect.steps for effect in effects.values()) else []),
        *([gap] if (gap := _gap_title(sweep, effects)) else []),
    ]
    # With at least ten seeds there is also an interval that assumes no normal distribution.
    resampled = any(difference.bootstrap() for difference in against.values())
    for (name, difference), p in zip(against.items(), holm([found.p for found in against.values()]), strict=True):
        seeds = ", ".join(f"{seed}: {value:+.4f}".replace("-", "−") for seed, value in difference.differences.items())
        unpaired = [
            f"{'this arm' if run.arm == name else 'baseline'}, seed {run.seed}: {run.state}"
            for run in sweep.runs
            if run.arm in (name, sweep.arms[0].name) and run.seed not in difference.differences and run.state != "done"
        ]
        rows.append(
            [
                arm_cell(sweep.arm(name).label),
                numeric(rounded_mean(difference.mean, difference.low, difference.high)),
                numeric(interval(difference.low, difference.high)),
                *([numeric(interval(*difference.bootstrap()) if difference.bootstrap() else "–")] if resampled else []),
                *_unit_cells(sweep, effects[name], units),
                numeric(f"{difference.p:.2g}" if math.isfinite(difference.p) else "–"),
                numeric(f"{p:.2g}" if math.isfinite(p) else "–"),
                numeric(_effect(difference)),
                numeric(str(difference.n)),
                Cell(seeds or "–"),
                Cell("; ".join(unpaired) or "–"),
            ]
        )
    header = [
        "arm",
        "mean difference",
        f"{confidence_level(sweep.alpha)} interval",
        *(["bootstrap"] if resampled else []),
        *units,
        "p (paired t)",
        "p (Holm)",
        "effect",
        "pairs",
        "by seed",
        "not paired",
    ]
    right = range(1, 7 + resampled + len(units))
    return table(f"Final {sweep.metric} minus that of {sweep.arms[0].label}", header, rows, right)


def _gap_title(sweep: SweepResults, effects: Mapping[str, ArmEffect]) -> str:
    """Returns the title of the column of shares of a gap; empty without floors."""
    found = [found for effect in effects.values() if (found := hardest_gap(effect.gaps, sweep.metric))]
    if not found:
        return ""
    name, gap = found[0]
    return f"% of the gap to {name}" if gap.above_floor else f"% of the lead over {name}"


def _unit_cells(sweep: SweepResults, effect: ArmEffect, units: Sequence[str]) -> list[Cell]:
    """Returns the cells of a difference in other units, under the titles `units`."""
    cells = []
    for title in units:
        if title == TIMES_THE_TOKENS:
            cells.append(_tokens_cell(effect))
        elif title == STEPS_TO_ITS_LOSS:
            cells.append(numeric(effect.steps.text if effect.steps else "–"))
        else:
            gap = hardest_gap(effect.gaps, sweep.metric)
            cells.append(numeric(f"{gap[1].value:.0f} ({interval(gap[1].low, gap[1].high)})" if gap else "–"))
    return cells


def units_note(sweep: SweepResults) -> str:
    """Returns an explanation of the columns in other units; empty if the baseline has no curve."""
    effects = baseline_effects(sweep).values()
    if not (found := next((effect.tokens for effect in effects if effect.tokens), None)):
        return ""
    decaying = (
        " The curve is that of its own runs, whose learning rate decays, so the interval allows for an error of "
        f"{100 * SCHEDULE_ERROR:.0f} % in the logarithm of the factor."
        if found.basis == DECAYING
        else ""
    )
    return (
        f"Times the tokens: how many times the training tokens of an arm the baseline would need for the loss of the "
        "arm, by its learning curve; below 1 the arm wastes tokens. Extrapolated: beyond the tokens of the "
        f"baseline's runs.{decaying} Steps to its loss: updates until an arm first reaches the loss at which the "
        "baseline ends."
    )


def effects_table(sweep: SweepResults, found: list[FactorEffect]) -> str:
    """Returns a table of main effects and interactions."""
    rows = []
    for effect, p in zip(found, holm([effect.difference.p for effect in found]), strict=True):
        difference = effect.difference
        rows.append(
            [
                Cell(" × ".join(effect.what)),
                Cell(effect_levels(effect)),
                numeric(rounded_mean(difference.mean, difference.low, difference.high)),
                numeric(interval(difference.low, difference.high)),
                numeric(f"{p:.2g}" if math.isfinite(p) else "–"),
                numeric(_effect(difference)),
                numeric(str(difference.n)),
            ]
        )
    header = [
        "factor",
        "levels",
        "difference",
        f"{confidence_level(sweep.alpha)} interval",
        "p (Holm)",
        "effect",
        "pairs",
    ]
    return table(f"Main effects and interactions in {sweep.metric}", header, rows, range(2, 7))


def effect_levels(effect: FactorEffect) -> str:
    """Returns e.g. `post against pre × 100 against 0`."""
    return " × ".join(f"{level} against {first}" for level, first in effect.levels)
