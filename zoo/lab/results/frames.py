"""Sweeps and runs as pandas data frames: `zoo.compare`, `zoo.differences`, `zoo.verdict`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.comparison import load_comparison
from zoo.lab.results.curves import varying_factors
from zoo.lab.results.differences import arm_differences
from zoo.lab.results.sweep_results import SweepResults, load_sweep
from zoo.lab.results.verdict import Verdict, judge

if TYPE_CHECKING:
    import pandas

Folders = str | Path | Sequence[str | Path]
_CLOCK = ("step", "tokens", "seconds")


def compare(folders: Folders, curves: bool = False) -> "pandas.DataFrame":
    """Returns the metrics of runs as a data frame.

    Args:
        folders: the folder of a sweep, or the folders of runs.
        curves: a row for every line of metrics.jsonl; otherwise a row for every run, with the last
            value of each metric.

    Returns:
        Columns "arm", one for each factor in which the arms differ, "seed", "state", "step", "tokens",
        "seconds", and the metrics; NaN where one was not written. `attrs["caveats"]` lists what makes
        the comparison doubtful, and `attrs["folders"]` says what was read.

    Raises:
        ConfigError: a folder that is no run and no sweep, or is damaged.
    """
    import pandas

    sweep = _read(folders)
    names, factors = sweep.metrics(), _factor_columns(sweep)
    rows = []
    for run in sweep.runs:
        arm = sweep.arm(run.arm)
        levels = {factor: arm.factors.get(factor) for factor in factors}
        common = {"arm": arm.label, **levels, "seed": run.seed, "state": run.state}
        if curves:
            rows += [common | row for row in run.rows]
            continue
        last = run.rows[-1] if run.rows else {}
        values = {name: run.series(name).value[-1] for name in names if any(name in row for row in run.rows)}
        rows.append(common | {name: last.get(name) for name in _CLOCK} | values)
    frame = pandas.DataFrame(rows, columns=["arm", *factors, "seed", "state", *_CLOCK, *names])
    frame.attrs["caveats"] = sweep_caveats(sweep)
    frame.attrs["folders"] = [str(folder) for folder in _as_list(folders)]
    return frame


def differences(source: "Folders | pandas.DataFrame", baseline: str | None = None) -> "pandas.DataFrame":
    """Returns the difference of every arm from a baseline, paired by seed: what a report begins with.

    Args:
        source: the folder of a sweep, the folders of runs, or a frame of `compare`.
        baseline: what an arm is called; the first one by default.

    Returns:
        A row for each other arm: "arm", its factors, "baseline", "metric", "difference" (arm minus
        baseline), "low" and "high" of its interval at "level", "pairs", "p", "p_holm" (corrected
        for the number of arms), "times_the_tokens" with its interval, "testable", and
        "why_not_testable".

    Raises:
        ConfigError: a folder that is no run and no sweep, or is damaged; there is no such arm.
    """
    import pandas

    sweep = _read(source.attrs["folders"] if isinstance(source, pandas.DataFrame) else source)
    sweep = sweep if baseline is None else sweep.with_baseline(baseline)
    factors = _factor_columns(sweep)
    rows = []
    for one in arm_differences(sweep):
        found, tokens = one.difference, one.effect.tokens
        rows.append(
            {"arm": one.arm.label}
            | {factor: one.arm.factors.get(factor) for factor in factors}
            | {"baseline": one.baseline.label, "metric": sweep.metric, "difference": found.mean}
            | {"low": found.low, "high": found.high, "level": 1 - found.alpha, "pairs": found.n}
            | {"p": found.p, "p_holm": one.p_holm}
            | {"times_the_tokens": tokens and tokens.value}
            | {"times_the_tokens_low": tokens and tokens.low, "times_the_tokens_high": tokens and tokens.high}
            | {"testable": not one.why_not_testable, "why_not_testable": one.why_not_testable}
        )
    return pandas.DataFrame(rows)


def verdict(folder: str | Path) -> Verdict:
    """Judges the contrasts of a sweep on its runs as they are now.

    Returns:
        `overall` ("supported", "not supported", "undecided", "not tuned", "not testable" or "no
        claim"), `paragraph`, which says why, `outcomes` of the contrasts, and the verdict on each
        of the `claims`.

    Raises:
        ConfigError: the folder is no sweep, or is damaged.
    """
    return judge(load_sweep(folder))


def _factor_columns(sweep: SweepResults) -> list[str]:
    """Returns the factors that get a column: those whose name no other column has."""
    taken = {"arm", "seed", "state", *_CLOCK, *sweep.metrics()}
    return [factor for factor in varying_factors(sweep) if factor not in taken]


def _as_list(folders: Folders) -> list[str | Path]:
    return [folders] if isinstance(folders, str | Path) else list(folders)


def _read(folders: Folders) -> SweepResults:
    found = _as_list(folders)
    if len(found) == 1 and (Path(found[0]) / "experiment.json").exists():
        return load_sweep(found[0])
    return load_comparison(found)
