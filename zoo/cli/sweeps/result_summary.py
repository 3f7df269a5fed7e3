"""The tables of a sweep in the terminal: the differences of the arms first, then what each reached in
other units, and what each factor changes.
"""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zoo.lab.formatting import (
    confidence_level,
    difference_columns,
    number,
    number_column,
    plus_minus_column,
    significant,
)
from zoo.lab.launch.fitted_table import print_fitted
from zoo.lab.report.result_tables import effect_levels
from zoo.lab.results.arm_effects import baseline_effects, tokens_per_parameter
from zoo.lab.results.curves import final_values
from zoo.lab.results.differences import arm_differences, reasons
from zoo.lab.results.factor_effects import estimate_effects
from zoo.lab.results.feature_gains import gain_lines
from zoo.lab.results.floor_lines import floor_lines
from zoo.lab.results.instability import instability
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.statistics.paired import spread

TESTABLE = "testable"


def print_results(console: Console, sweep: SweepResults) -> None:
    """Prints what every arm reached and its difference from the baseline, with an interval, times the
    tokens and whether it is testable; with several factors their main effects too.
    """
    print_differences(console, sweep)
    _print_units(console, sweep)
    level = f"{confidence_level(sweep.alpha)} interval"
    effects = [effect for effect in estimate_effects(sweep) if len(effect.what) == 1 and effect.difference.n > 1]
    if effects:
        table = _table("factor", "levels", "main effect", level)
        found = [(one.difference.mean, one.difference.low, one.difference.high) for one in effects]
        for effect, *texts in zip(effects, *difference_columns(found), strict=True):
            table.add_row(Text(effect.what[0]), Text(effect_levels(effect)), *texts)
        console.print()
        _print(console, table)
    for line in gain_lines(sweep):
        console.print(Text(line), soft_wrap=True)
    console.print()


def print_differences(console: Console, sweep: SweepResults) -> None:
    """Prints the answer of a sweep: every arm against the baseline. Reasons why a difference is not
    testable follow the table.
    """
    found = {one.arm.name: one for one in arm_differences(sweep)}
    values = [spread(final_values(sweep, arm.name, sweep.metric).values()) for arm in sweep.arms]
    reached = plus_minus_column([None if one is None else (one.mean, one.sd) for one in values])
    columns = difference_columns(
        [(one.difference.mean, one.difference.low, one.difference.high) for one in found.values()]
    )
    texts = dict(zip(found, zip(*columns, strict=True), strict=True))
    tokens = {name: one.effect.tokens.text for name, one in found.items() if one.effect.tokens}
    header = [
        "arm",
        "seeds",
        f"final {sweep.metric}",
        "difference",
        f"{confidence_level(sweep.alpha)} interval",
        "pairs",
    ]
    table = _table(*header, *(["times the tokens"] if tokens else []), TESTABLE)
    for arm, value, text in zip(sweep.arms, values, reached, strict=True):
        one = found.get(arm.name)
        compared = (
            ["baseline" if found else "", "", "", *([""] if tokens else []), ""]
            if one is None
            else [
                *texts[arm.name],
                str(one.difference.n),
                *([tokens.get(arm.name, "–")] if tokens else []),
                one.testable,
            ]
        )
        table.add_row(Text(arm.label), str(value.n if value else 0), text, *compared)
    for line in floor_lines(sweep, sweep.metric):
        table.add_row(Text(f"floor: {line.name}"), "", number(line.score))
    console.print()
    _print(console, table)
    for line in reasons(found.values()):
        console.print(Text(line, "dim"), soft_wrap=True)


def _print_units(console: Console, sweep: SweepResults) -> None:
    """Prints tokens per parameter, steps to the baseline's loss, and seeds that went wrong."""
    effects, unstable = baseline_effects(sweep), instability(sweep)
    ratios = [tokens_per_parameter(sweep, arm.name) for arm in sweep.arms]
    rounded = number_column([significant(ratio, 2) for ratio in ratios], 2)
    shown = {
        "tokens/parameter": {
            arm.name: text for arm, ratio, text in zip(sweep.arms, ratios, rounded, strict=True) if ratio
        },
        "steps to its loss": {name: effect.steps.text for name, effect in effects.items() if effect.steps},
        "unstable": {name: found.text for name, found in unstable.items() if found.seeds},
    }
    shown = {title: texts for title, texts in shown.items() if texts}
    if not shown:
        return
    table = _table("arm", *shown)
    for arm in sweep.arms:
        table.add_row(Text(arm.label), *(texts.get(arm.name, "") for texts in shown.values()))
    console.print()
    _print(console, table)


def _print(console: Console, table: Table) -> None:
    names = [getattr(column.header, "plain", "") for column in table.columns]
    dropped = [name for name in ("seeds", "levels", "pairs", *reversed(names[1:])) if name in names]
    results = [name for name in names if name.startswith("final ") or name in ("main effect", "difference")]
    print_fitted(console, table, [name for name in dict.fromkeys(dropped) if name not in results])


def _table(*header: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    texts = 2 if header[0] == "factor" else 1
    for place, name in enumerate(header):
        table.add_column(Text(name), justify="left" if place < texts else "right", no_wrap=place >= texts)
    return table
