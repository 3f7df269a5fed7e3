"""The tables that end a sweep in the terminal: what the arms reached, in the metric and in other
units, and what each factor changes.
"""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zoo.lab.formatting import confidence_level, interval, number, plus_minus, rounded_mean, significant
from zoo.lab.launch.fitted_table import print_fitted
from zoo.lab.report.result_tables import effect_levels
from zoo.lab.results.arm_effects import baseline_effects, tokens_per_parameter
from zoo.lab.results.curves import baseline_differences, final_values
from zoo.lab.results.factor_effects import estimate_effects
from zoo.lab.results.floor_lines import floor_lines
from zoo.lab.results.instability import instability
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.statistics.paired import spread


def print_results(console: Console, sweep: SweepResults) -> None:
    """Prints mean and standard deviation of every arm, and its difference to the first arm with an
    interval and in other units; with several factors their main effects too.
    """
    level = f"{confidence_level(sweep.alpha)} interval"
    against = baseline_differences(sweep)
    arms = _table("arm", "seeds", f"final {sweep.metric}", "difference to the first", level)
    for arm in sweep.arms:
        values = final_values(sweep, arm.name, sweep.metric)
        found, difference = spread(values.values()), against.get(arm.name)
        reached = "–" if found is None else plus_minus(found.mean, found.sd) if found.n > 1 else number(found.mean)
        compared = difference is not None and difference.n > 1
        arms.add_row(
            Text(arm.label),
            str(len(values)),
            reached,
            rounded_mean(difference.mean, difference.low, difference.high) if compared else "",
            interval(difference.low, difference.high) if compared else "",
        )
    for line in floor_lines(sweep, sweep.metric):
        arms.add_row(Text(f"floor: {line.name}"), "", number(line.score))
    console.print()
    _print(console, arms)
    _print_units(console, sweep)
    effects = [effect for effect in estimate_effects(sweep) if len(effect.what) == 1 and effect.difference.n > 1]
    if effects:
        table = _table("factor", "levels", "main effect", level)
        for effect in effects:
            difference = effect.difference
            table.add_row(
                Text(effect.what[0]),
                Text(effect_levels(effect)),
                rounded_mean(difference.mean, difference.low, difference.high),
                interval(difference.low, difference.high),
            )
        console.print()
        _print(console, table)
    console.print()


def _print_units(console: Console, sweep: SweepResults) -> None:
    """Prints tokens per parameter, differences in tokens and steps, and seeds that went wrong."""
    effects, unstable = baseline_effects(sweep), instability(sweep)
    ratios = {arm.name: tokens_per_parameter(sweep, arm.name) for arm in sweep.arms}
    shown = {
        "tokens/parameter": {name: number(significant(value, 2), 2) for name, value in ratios.items() if value},
        "times the tokens": {name: effect.tokens.text for name, effect in effects.items() if effect.tokens},
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
    dropped = [name for name in ("seeds", "levels", *reversed(names[1:])) if name in names]
    results = [name for name in names if name.startswith("final ") or name == "main effect"]
    print_fitted(console, table, [name for name in dict.fromkeys(dropped) if name not in results])


def _table(*header: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    texts = 2 if header[0] == "factor" else 1
    for place, name in enumerate(header):
        table.add_column(Text(name), justify="left" if place < texts else "right", no_wrap=place >= texts)
    return table
