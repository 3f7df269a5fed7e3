"""Tables of what the arms reached and how they compare: contrasts, differences, factor effects."""

import math
from collections.abc import Mapping, Sequence

from zoo.lab.formatting import confidence_level, interval, number, number_column, significant, with_minus
from zoo.lab.measures import MEASURE_PREFIX, measure_metrics
from zoo.lab.metrics import higher_is_better, unit_suffix
from zoo.lab.report.columns import BOUNDS, MEAN_AND_SD, csv_names, difference_cells, number_cells, spread_cells
from zoo.lab.report.html_tables import Cell, arm_cell, escape, numeric, state_cell, table
from zoo.lab.report.progress_line import progress_line
from zoo.lab.report.run_tables import count_states
from zoo.lab.results.arm_effects import ArmEffect, contrast_effect, hardest_gap, tokens_per_parameter, total_parameters
from zoo.lab.results.curves import final_values, loss_by_length, varying_factors
from zoo.lab.results.decision_rules import rule_text
from zoo.lab.results.differences import ArmDifference, arm_differences, reasons
from zoo.lab.results.effect_units import DECAYING, SCHEDULE_ERROR, TokenFactor
from zoo.lab.results.factor_effects import FactorEffect
from zoo.lab.results.floor_lines import floor_lines, floors_by_length, floors_note
from zoo.lab.results.instability import FAR_OFF, instability
from zoo.lab.results.schema import Arm
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import Verdict
from zoo.lab.statistics.paired import PairedDifference, holm, spread

TIMES_THE_TOKENS, STEPS_TO_ITS_LOSS = "times the tokens", "steps to its loss"
HEDGES, INTERVAL = "Hedges' g", "interval"
_FACTOR_PARTS = ("value", "low", "high")


def contrast_table(sweep: SweepResults, verdict: Verdict) -> str:
    """Returns a table of the contrasts: sides, difference, interval, rule and outcome.

    Each interval has its own level: by the rule, by what is known of the noise, and by the look that
    decided. While runs are left, a contrast without a pair has no outcome yet.
    """
    rows, running = [], bool(progress_line(sweep))
    effects = [contrast_effect(sweep, outcome.contrast, outcome.difference) for outcome in verdict.outcomes]
    in_tokens = any(effect and effect.tokens for effect in effects)
    means, intervals = difference_cells([outcome.difference for outcome in verdict.outcomes])
    for outcome, effect, mean, between in zip(verdict.outcomes, effects, means, intervals, strict=True):
        contrast, difference = outcome.contrast, outcome.difference
        same = contrast.a.metric == contrast.b.metric == sweep.metric
        sides = [sweep.arm(side.arm).label + ("" if same else f" at {side.metric}") for side in contrast.sides]
        rows.append(
            [
                Cell(contrast.name),
                arm_cell(sides[0]),
                arm_cell(sides[1]),
                mean,
                between,
                Cell(
                    confidence_level(difference.alpha) if math.isfinite(difference.low) else "–",
                    "short",
                    raw=(1 - difference.alpha if math.isfinite(difference.low) else None,),
                ),
                *([_tokens_cell(effect and effect.tokens)] if in_tokens else []),
                _effect(difference),
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
        INTERVAL,
        "level",
        *([TIMES_THE_TOKENS] if in_tokens else []),
        HEDGES,
        "pairs",
        "rule",
        "outcome",
    ]
    names = csv_names(INTERVAL, BOUNDS) | csv_names(TIMES_THE_TOKENS, _FACTOR_PARTS)
    return table("Contrasts, stated before the runs", header, rows, range(3, 8 + in_tokens), names)


def _tokens_cell(found: TokenFactor | None) -> Cell:
    known = (found.value, found.low, found.high) if found else (math.nan,) * 3
    raw = tuple(value if math.isfinite(value) else None for value in known)
    return Cell(found.text if found else "–", "wide", raw=raw)


def _effect(difference: PairedDifference) -> Cell:
    # With two pairs the small-sample correction is 0.
    known = difference.n > 2 and math.isfinite(difference.effect)
    return numeric(with_minus(f"{difference.effect:.2f}") if known else "–", difference.effect if known else None)


def _p(value: float) -> Cell:
    return numeric(with_minus(f"{value:.2g}") if math.isfinite(value) else "–", value)


def _factor_cells(arm: Arm, factors: Sequence[str]) -> list[Cell]:
    return [Cell(arm.factors.get(key, "–"), "factor") for key in factors]


def _factor_columns(sweep: SweepResults) -> list[str]:
    # What an arm is called names a single factor already.
    factors = varying_factors(sweep)
    return factors if len(factors) > 1 else []


def arms_table(sweep: SweepResults) -> str:
    """Returns a table of the arms: parameters and results."""
    factors = _factor_columns(sweep)
    best, seen_is = (max, "highest seen") if higher_is_better(sweep.metric) else (min, "lowest seen")
    unstable, floors = instability(sweep), floor_lines(sweep, sweep.metric)
    names = [arm.name for arm in sweep.arms]
    parameters = number_cells([total_parameters(sweep, name) for name in names])
    # With experts, a token passes some of the parameters.
    counts = [total_parameters(sweep, name, "active") for name in names]
    active = number_cells(counts) if any(counts) else []
    ratios = [tokens_per_parameter(sweep, name) for name in names]
    rounded = number_column([significant(ratio, 2) for ratio in ratios], 2)
    finals = spread_cells([spread(final_values(sweep, name, sweep.metric).values()) for name in names])
    seen = [[value for run in sweep.runs_of(name) if (value := run.best(sweep.metric)) is not None] for name in names]
    lowest = number_cells([best(values, default=None) for values in seen])
    rows = [
        [
            arm_cell(arm.label),
            *_factor_cells(arm, factors),
            parameters[place],
            *active[place : place + 1],
            numeric(rounded[place], ratios[place]),
            finals[place],
            lowest[place],
            Cell(unstable[arm.name].text),
            Cell(count_states(sweep.runs_of(arm.name)), "short"),
        ]
        for place, arm in enumerate(sweep.arms)
    ]
    final = f"final {sweep.metric}"
    header = ["arm", *factors, "parameters", *["active"] * bool(active), "tokens / parameter", final, seen_is]
    header += ["unstable", "runs"]
    missing = [Cell("–", "factor")] * len(factors) + [numeric("–", None)] * (3 if active else 2)
    rows += [
        [
            _floor_cell(line.name),
            *missing,
            numeric(number(line.score), line.score, None),
            numeric("–", None),
            Cell("–"),
            Cell("–", "short"),
        ]
        for line in floors
    ]
    first = 1 + len(factors)
    caption = f"Final {sweep.with_unit(sweep.metric)}"
    return table(caption, header, rows, range(first, first + (5 if active else 4)), csv_names(final, MEAN_AND_SD))


def arms_note(sweep: SweepResults) -> str:
    """Returns an explanation of the columns of `arms_table`."""
    seen_is = "highest seen" if higher_is_better(sweep.metric) else "lowest seen"
    text = (
        f"Final: mean ± SD over finished seeds; {seen_is}: over all runs; unstable: seeds that diverged or end more "
        f"than {FAR_OFF:g} SD of the noise from what their arm and seed predict."
    )
    if note := floors_note(sweep):
        text += f" Floors: {'models without depth, ' if floor_lines(sweep, sweep.metric) else ''}{note}."
    return text


def _floor_cell(name: str) -> Cell:
    return Cell(f"floor: {name}")


def measured_table(sweep: SweepResults) -> str:
    """Returns a table of the measures of the trained runs by arm; empty without measures."""
    metrics = [metric for name in sweep.measures for metric in measure_metrics(name) if metric in sweep.metrics()]
    if not metrics:
        return ""
    columns = [
        spread_cells([spread(final_values(sweep, arm.name, metric).values()) for arm in sweep.arms])
        for metric in metrics
    ]
    rows = [[arm_cell(arm.label), *cells] for arm, *cells in zip(sweep.arms, *columns, strict=True)]
    titles = [
        metric.removeprefix(MEASURE_PREFIX).replace("_", " ") + unit_suffix(metric).replace(" ", ", ", 1)
        for metric in metrics
    ]
    names = {key: value for title in titles for key, value in csv_names(title, MEAN_AND_SD).items()}
    caption = "Measures of the trained runs (mean ± SD over seeds)"
    return table(caption, ["arm", *titles], rows, range(1, 1 + len(titles)), names)


def lengths_table(sweep: SweepResults) -> str:
    """Returns a table of the final loss at each evaluation length; empty without other lengths."""
    found = loss_by_length(sweep)
    if found is None:
        return ""
    titles = [f"{length:,}" + (" (trained)" if length == found.trained else "") for length in found.lengths]
    columns = []
    for length in found.lengths:
        cells = spread_cells([found.values[arm.name][length] for arm in sweep.arms])
        for place, arm in enumerate(sweep.arms):
            if found.values[arm.name][length] is None:
                ended = all(run.finished for run in sweep.runs_of(arm.name))
                impossible = (arm.name, length) in found.impossible
                why = "cannot be evaluated" if impossible else "not finite" if ended else "not finished"
                cells[place] = numeric(why, None, None)
        columns.append(cells)
    rows = [[arm_cell(arm.label), *cells] for arm, *cells in zip(sweep.arms, *columns, strict=True)]
    for name, scores in floors_by_length(sweep, found).items():
        values = [scores.get(length) for length in found.lengths]
        rows.append([_floor_cell(name), *(numeric(number(value), value, None) for value in values)])
    caption = f"Final {sweep.with_unit(found.metric)}, by evaluation length (mean ± SD over seeds)"
    names = {key: value for title in titles for key, value in csv_names(title, MEAN_AND_SD).items()}
    return table(caption, ["arm", *titles], rows, range(1, 1 + len(titles)), names)


def answer_table(sweep: SweepResults) -> str:
    """Returns the difference of every arm from the baseline, and whether it is testable; why not
    follows.
    """
    found, factors = arm_differences(sweep), _factor_columns(sweep)
    in_tokens = any(one.effect.tokens for one in found)
    means, intervals = difference_cells([one.difference for one in found])
    rows = [
        [
            arm_cell(one.arm.label),
            *_factor_cells(one.arm, factors),
            mean,
            between,
            numeric(str(one.difference.n)),
            *([_tokens_cell(one.effect.tokens)] if in_tokens else []),
            Cell(one.testable, raw=(one.testable, one.why_not_testable or None)),
        ]
        for one, mean, between in zip(found, means, intervals, strict=True)
    ]
    level = f"{confidence_level(sweep.alpha)} interval"
    header = ["arm", *factors, "difference", level, "pairs", *([TIMES_THE_TOKENS] if in_tokens else []), "testable"]
    first = 1 + len(factors)
    names = csv_names(level, BOUNDS) | csv_names(TIMES_THE_TOKENS, _FACTOR_PARTS)
    names |= {"testable": ["testable", "reason"]}
    notes = "".join(f'<p class="note">{escape(line)}</p>' for line in reasons(found))
    return table(_minus_that_of_baseline(sweep), header, rows, range(first, first + 3), names) + notes


def _minus_that_of_baseline(sweep: SweepResults) -> str:
    return f"Final {sweep.with_unit(sweep.metric)} minus that of {sweep.baseline_arm.label}"


def differences_table(sweep: SweepResults) -> str:
    """Returns a table of every arm against the baseline, paired by seed, with all that is known."""
    found, factors = arm_differences(sweep), _factor_columns(sweep)
    effects = {one.arm.name: one.effect for one in found}
    gap = _gap_title(sweep, effects)
    units = [
        *([TIMES_THE_TOKENS] if any(effect.tokens for effect in effects.values()) else []),
        *([STEPS_TO_ITS_LOSS] if any(effect.steps for effect in effects.values()) else []),
        *([gap] if gap else []),
    ]
    # With at least ten seeds there is also an interval that assumes no normal distribution.
    resampled = any(one.difference.bootstrap() for one in found)
    means, intervals = difference_cells([one.difference for one in found])
    rows = []
    for one, mean, between in zip(found, means, intervals, strict=True):
        again = one.difference.bootstrap()
        rows.append(
            [
                arm_cell(one.arm.label),
                *_factor_cells(one.arm, factors),
                mean,
                between,
                *([numeric(interval(*again) if again else "–", *(again or (None, None)))] if resampled else []),
                *_unit_cells(sweep, one.effect, units),
                _p(one.difference.p),
                _p(one.p_holm),
                _effect(one.difference),
                numeric(str(one.difference.n)),
                _seeds_cell(sweep, one.difference),
                Cell(_not_paired(sweep, one) or "–", "short"),
            ]
        )
    level = f"{confidence_level(sweep.alpha)} interval"
    header = [
        "arm",
        *factors,
        "mean difference",
        level,
        *(["bootstrap"] if resampled else []),
        *units,
        "p",
        "p (Holm)",
        HEDGES,
        "pairs",
        "by seed",
        "not paired",
    ]
    first = 1 + len(factors)
    right = range(first, first + 6 + resampled + len(units))
    names = csv_names(level, BOUNDS) | csv_names("bootstrap", BOUNDS) | csv_names(TIMES_THE_TOKENS, _FACTOR_PARTS)
    names |= {"by seed": [f"seed {seed}" for seed in sweep.seeds]}
    names |= csv_names(gap, _FACTOR_PARTS) if gap else {}
    return table(_minus_that_of_baseline(sweep), header, rows, right, names)


def _seeds_cell(sweep: SweepResults, difference: PairedDifference) -> Cell:
    shown = ", ".join(with_minus(f"{seed}: {value:+.4f}") for seed, value in difference.differences.items())
    return Cell(shown or "–", "short", raw=tuple(difference.differences.get(seed) for seed in sweep.seeds))


def _not_paired(sweep: SweepResults, one: ArmDifference) -> str:
    """Returns the runs of both arms whose seeds are in no pair, with their states."""
    return "; ".join(
        f"{'this arm' if run.arm == one.arm.name else 'baseline'}, seed {run.seed}: {run.state}"
        for run in sweep.runs
        if run.arm in (one.arm.name, one.baseline.name)
        and run.seed not in one.difference.differences
        and run.state != "done"
    )


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
            cells.append(_tokens_cell(effect.tokens))
        elif title == STEPS_TO_ITS_LOSS:
            cells.append(numeric(effect.steps.text if effect.steps else "–", effect.steps and effect.steps.mean))
        else:
            gap = hardest_gap(effect.gaps, sweep.metric)
            share = gap and gap[1]
            text = with_minus(f"{share.value:.0f} ({interval(share.low, share.high)})") if share else "–"
            cells.append(numeric(text, *((share.value, share.low, share.high) if share else (None,) * 3)))
    return cells


def units_note(sweep: SweepResults) -> str:
    """Returns an explanation of the columns in other units; empty if the baseline has no curve."""
    effects = [one.effect for one in arm_differences(sweep)]
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
    means, intervals = difference_cells([effect.difference for effect in found])
    corrected = holm([effect.difference.p for effect in found])
    rows = [
        [
            Cell(" × ".join(effect.what)),
            Cell(effect_levels(effect)),
            mean,
            between,
            _p(p),
            _effect(effect.difference),
            numeric(str(effect.difference.n)),
        ]
        for effect, mean, between, p in zip(found, means, intervals, corrected, strict=True)
    ]
    level = f"{confidence_level(sweep.alpha)} interval"
    header = ["factor", "levels", "difference", level, "p (Holm)", HEDGES, "pairs"]
    caption = f"Main effects and interactions in {sweep.metric}"
    return table(caption, header, rows, range(2, 7), csv_names(level, BOUNDS))


def effect_levels(effect: FactorEffect) -> str:
    """Returns e.g. `post against pre × 100 against 0`."""
    return " × ".join(f"{level} against {first}" for level, first in effect.levels)
