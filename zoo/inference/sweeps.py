"""Sweeps from Python: `zoo.plan` shows what would be trained, `zoo.sweep` trains what is not done, and
`zoo.figures` draws what was found.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from zoo.errors import ConfigError
from zoo.lab.experiment import Experiment, load_experiment
from zoo.lab.launch.sweep_folder import read_planned_state
from zoo.lab.launch.sweep_options import SweepOptions
from zoo.lab.launch.workflow import SweepWorkflow
from zoo.lab.measures import compute_missing_measures
from zoo.lab.planning.adhoc import changed_base, experiment_from_flags
from zoo.lab.planning.plan import make_plan
from zoo.lab.report.build import REPORT_FILE, build_report
from zoo.lab.report.figures import draw_figures
from zoo.lab.results.frames import differences
from zoo.lab.results.schema import factor_labels
from zoo.lab.results.sweep_results import load_sweep

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

Vary = Mapping[str, Sequence[Any]]
Arms = Mapping[str, str | Mapping[str, Any]]


def sweep(
    source: str | Path | None = None,
    vary: Vary | None = None,
    arms: Arms | None = None,
    seeds: int | Sequence[int] | None = None,
    folder: str | Path | None = None,
    jobs: int = 1,
    verbose: bool = True,
    **options: Any,
) -> "pandas.DataFrame":
    """Trains every arm with every seed, as `zoo run` does, and returns what the arms differ in.

    Finished runs are not trained again, so the same call returns at once what is done, and continues
    what was interrupted. The report is written into the folder.

    Args:
        source: an experiment file, or the config file that `vary` and `arms` change; None if the arms
            are configs of their own.
        vary: {field: its values}, one factor each.
        arms: {name: {field: value}}, or without a source {name: config file}.
        seeds: their number, or a list; by default those of the experiment.
        folder: of the sweep; by default `runs/NAME`.
        jobs: runs at a time.
        verbose: print the plan and the progress.
        options: `changes` ({field: value} for all arms), `allow` and `match` (as the flags of
            `zoo run`); `name` and `metric`, which an experiment file declares itself.

    Returns:
        The frame of `zoo.differences`; `attrs["folder"]` is that of the sweep, `attrs["report"]` the
        page, and `attrs["failed"]` lists the runs that failed.

    Raises:
        ConfigError: what is asked for is no sweep, or its arms do not compare.
        Preempted: a signal stopped the sweep.
    """
    experiment = _experiment(source, vary, arms, seeds, **options)
    place = Path(folder) if folder is not None else Path("runs") / experiment.name
    command = _command(source, vary, arms, experiment, options)
    console = Console(quiet=not verbose, highlight=False)
    SweepWorkflow(SweepOptions(place, command, jobs), console, _report).run(experiment)
    frame = differences(place)
    failed = [run.folder.name for run in load_sweep(place).runs if run.state == "failed"]
    frame.attrs |= {"folder": str(place), "report": str(place / REPORT_FILE), "failed": failed}
    return frame


def plan(
    source: str | Path | None = None,
    vary: Vary | None = None,
    arms: Arms | None = None,
    seeds: int | Sequence[int] | None = None,
    folder: str | Path | None = None,
    **options: Any,
) -> "pandas.DataFrame":
    """Returns what `sweep` with the same arguments would train; trains and writes nothing.

    Returns:
        A row for each arm: its factors, "arm", "parameters", "flops_per_token", "steps", "tokens", and
        the numbers of its "runs" and of those that are "done". `attrs["warnings"]` lists what
        makes the comparison doubtful.

    Raises:
        ConfigError: as `sweep`.
    """
    import pandas

    experiment = _experiment(source, vary, arms, seeds, **options)
    place = Path(folder) if folder is not None else Path("runs") / experiment.name
    found = make_plan(experiment).in_folder(place)
    labels = factor_labels([arm.levels for arm in found.arms], [arm.name for arm in found.arms])
    rows = []
    for arm, label in zip(found.arms, labels, strict=True):
        runs = [run for run in found.runs if run.arm.name == arm.name]
        done = sum(read_planned_state(place, run).name == "done" for run in runs)
        rows.append(
            # The factor of arms that have names is "arm" itself.
            {**arm.levels, "arm": label, "parameters": arm.parameters["total"]}
            | {"flops_per_token": arm.flops_per_token, "steps": arm.steps, "tokens": arm.tokens}
            | {"runs": len(runs), "done": done}
        )
    frame = pandas.DataFrame(rows)
    frame.attrs |= {"warnings": list(found.warnings), "folder": str(place)}
    return frame


def figures(folder: str | Path, baseline: str | None = None) -> "dict[str, Axes]":
    """Draws the plots of a sweep: its curves, and what applies of loss by length, loss by tuned
    value, and differences from the baseline.

    Returns:
        {"loss_by_step", "loss_by_length", "loss_by_rate", "differences": the axes of a Matplotlib
        figure (`axes.figure`), to be changed or saved}, without those that have no data.

    Raises:
        ConfigError: the folder is no sweep, or is damaged; there is no such arm.
    """
    found = load_sweep(folder)
    return draw_figures(found if baseline is None else found.with_baseline(baseline))


def _experiment(
    source: str | Path | None,
    vary: Vary | None,
    arms: Arms | None,
    seeds: int | Sequence[int] | None,
    name: str | None = None,
    changes: Mapping[str, Any] | None = None,
    **comparison: Any,
) -> Experiment:
    """Returns the experiment of the arguments of `sweep`; `comparison` has `allow`, `match`,
    `metric`.
    """
    spec = None if source is None else str(source)
    if vary or arms or spec is None:
        experiment = experiment_from_flags(spec, _vary_words(vary or {}), name, _arm_words(arms or {}))
    else:
        declared = [key for key, value in (("name", name), ("metric", comparison.get("metric"))) if value is not None]
        if declared:
            raise ConfigError(f"{' and '.join(declared)}: the experiment file {spec} declares its own")
        experiment = load_experiment(spec)
    if unknown := sorted(set(comparison) - {"allow", "match", "metric"}):
        raise TypeError(f"unknown argument {unknown[0]}; the options are name, changes, allow, match, metric")
    allow = comparison.pop("allow", ())
    allow = tuple(word.strip() for word in allow.split(",")) if isinstance(allow, str) else tuple(allow)
    chosen = {key: value for key, value in comparison.items() if value is not None}
    return dataclasses.replace(
        experiment,
        base=changed_base(experiment, changes or {}),
        seeds=_seeds(seeds) or experiment.seeds,
        allow=tuple(dict.fromkeys([*experiment.allow, *allow])),
        **chosen,
    )


def _seeds(seeds: int | Sequence[int] | None) -> tuple[int, ...]:
    return () if seeds is None else tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _vary_words(vary: Vary) -> list[str]:
    return [f"{path}={','.join(map(_text, values))}" for path, values in vary.items()]


def _arm_words(arms: Arms) -> list[str]:
    fields = {
        name: ",".join(f"{path}={_text(value)}" for path, value in arm.items()) if isinstance(arm, Mapping) else arm
        for name, arm in arms.items()
    }
    return [f"{name}={content}" for name, content in fields.items()]


def _command(
    source: str | Path | None, vary: Vary | None, arms: Arms | None, experiment: Experiment, options: Mapping[str, Any]
) -> list[str]:
    """Returns the words of the `zoo run` that repeats the sweep."""
    from_file = source is not None and not vary and not arms
    words = ["zoo", "run", str(source)] if from_file else ["zoo", "run"]
    words += [f"--config={source}"] if source is not None and not from_file else []
    words += [word for text in _vary_words(vary or {}) for word in ("--vary", text)]
    words += [word for text in _arm_words(arms or {}) for word in ("--arm", text)]
    words += ["--seeds", f"{','.join(map(str, experiment.seeds))},"]
    words += ["--allow", ",".join(experiment.allow)] if options.get("allow") else []
    words += [word for key in ("name", "match", "metric") if options.get(key) for word in (f"--{key}", options[key])]
    changes = options.get("changes") or {}
    return words + [word for path, value in changes.items() for word in ("--set", f"{path}={_text(value)}")]


def _report(folder: Path) -> None:
    compute_missing_measures(folder, lambda line: None)
    build_report(load_sweep(folder), folder / REPORT_FILE)
