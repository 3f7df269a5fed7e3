"""An archived sweep as the procedure of judging reads one, from the files in its folder.

The runs are gone: runs.csv has their final metrics, tuning.csv the scores of the tuned values, and
contrasts.csv the rules. The experiment file, where there is one, adds what the archive does not have:
the exact margins and what a contrast declares besides its rule. Where the two state different rules,
the archived one counts, because it is the one that was stated before the runs.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.declarations import RULES, Contrast, Side
from zoo.lab.experiment import Experiment, arm_name, load_experiment, named_contrasts
from zoo.lab.floors.record import RunFloors, parse_floors
from zoo.lab.report.archive.experiment_page import read_contrasts, read_table
from zoo.lab.results.decision_rules import rule_text
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import Arm, factor_labels, parse_looks, parse_noise
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuning_grid import GridPoint, TuningGrid
from zoo.lab.statistics.sequential import design_until_decided
from zoo.nested import flatten, unflatten

# Sweeps that add seeds begin with this many unless --seeds says otherwise.
FIRST_LOOK = 3
# The largest number of seeds that is tried to explain a recorded level.
MOST_SEEDS = 20
# Between the factors in the label of an arm, earlier ", ". A level may have the sign too: labels+KL.
_BETWEEN_FACTORS = re.compile(r", |\+(?=[^+=]+=)")
RECORDED, COMMAND, LEVEL, OPTION, SINGLE = (
    "recorded",
    "from --max-seeds of the archived command",
    "from the level of the archived intervals",
    "from --max-seeds",
    "a single one",
)


class ArchivedSweep(NamedTuple):
    """An archived sweep.

    Attributes:
        sweep: the runs with their final metrics only.
        result: its result.json.
        experiment: of its experiment file; None without one that can be loaded.
        grid: the scores of the tuned values; None if nothing was tuned at this size.
        looks: where the levels of the looks were found.
        missing: what the archive and the experiment file do not say, a line for each.
    """

    sweep: SweepResults
    result: dict[str, Any]
    experiment: Experiment | None
    grid: TuningGrid | None
    looks: str
    missing: list[str]


def read_archived_sweep(folder: Path, experiments: Path, max_seeds: int | None = None) -> ArchivedSweep:
    """Reads the archive of a sweep.

    Args:
        folder: of the archived sweep.
        experiments: the folder of the experiment files.
        max_seeds: plans the looks of a sweep whose archive does not have them; None to take them from
            its command or from the level of its intervals.

    Raises:
        ConfigError: a file of the archive cannot be read.
    """
    try:
        result = read_json(folder / "result.json")
        experiment, missing = _experiment(result, experiments)
        names = _arm_names([arm["name"] for arm in result["arms"]], experiment)
        looks, origin = find_looks(result, max_seeds)
        contrasts = [_contrast(row, names, experiment) for row in read_contrasts(folder)]
        base = flatten(experiment.base) if experiment else {}
        sweep = SweepResults(
            folder,
            result["name"],
            result["metric"],
            [_arm(arm, names) for arm in result["arms"]],
            list(_runs(result, read_table(folder / "runs.csv"), names, base)),
            result["seeds"],
            contrasts,
            question=result["question"],
            size=result["size"],
            claim=_claim(result, experiment),
            warnings=result["warnings"],
            looks=looks,
            tuning=result["tuning"] or {},
            command=result["command"],
            noise=parse_noise(result.get("noise")),
            floors=_floors(result, names),
            corpus=result.get("corpus") or {},
        )
        grid = _grid(result, read_table(folder / "tuning.csv"), names)
        return ArchivedSweep(sweep, result, experiment, grid, origin, missing)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{folder}: not readable as an archived sweep ({type(error).__name__}: {error})") from error


def find_looks(result: Mapping[str, Any], max_seeds: int | None = None) -> tuple[dict[int, float], str]:
    """Returns {number of seeds: level} of an archived sweep, empty for a single look, and the origin.

    The levels are those that the archive has; else those of a sweep that begins with three seeds and
    goes up to `max_seeds`, to the `--max-seeds` of its command, or to the smallest number that gives
    the level of the intervals in its paragraph.
    """
    problems: list[str] = []
    recorded = parse_looks(result.get("looks") or None, "looks", problems)
    if problems:
        raise ValueError(problems[0])
    if "looks" in result:
        return recorded, result.get("looks_from") or RECORDED
    if max_seeds:
        return _planned(max_seeds), OPTION
    command = list(result["command"])
    if "--until-decided" in command:
        return _planned(int(command[command.index("--max-seeds") + 1])), COMMAND
    found = re.search(r"\((\d+(?:\.\d+)?) % interval", result["paragraph"])
    if command or not found or found[1] == "95":
        return {}, SINGLE
    seeds = len(result["seeds"])
    for most in range(max(seeds, FIRST_LOOK), MOST_SEEDS + 1):
        looks = _planned(most)
        if seeds in looks and f"{100 * (1 - looks[seeds]):.1f}" == f"{float(found[1]):.1f}":
            return looks, LEVEL
    raise ValueError(f"no looks up to {MOST_SEEDS} seeds have a level of {found[1]} % at {seeds}; use --max-seeds")


def _planned(max_seeds: int) -> dict[int, float]:
    return dict(design_until_decided(FIRST_LOOK, max_seeds).levels)


def _experiment(result: Mapping[str, Any], experiments: Path) -> tuple[Experiment | None, list[str]]:
    """Returns the experiment of an archived result, and a line if there is none."""
    name, size = (result.get("corpus") or {}).get("experiment") or result["name"], result["size"]
    path = experiments / f"{name.removesuffix(f'-{size}')}.py"
    if not path.exists():
        return None, [f"no experiment file {path.name}; the rules are those of contrasts.csv"]
    try:
        return load_experiment(f"{path}:{size}"), []
    except ConfigError:
        return None, [f"{path.name}:{size} cannot be loaded; the rules are those of contrasts.csv"]


def _arm_names(labels: Sequence[str], experiment: Experiment | None) -> dict[str, str]:
    """Returns {label: name} of the arms; the labels of an archive leave out factors of one level."""
    known = {}
    if experiment:
        levels = [
            dict(zip(experiment.factors, chosen, strict=True))
            for chosen in itertools.product(*experiment.factors.values())
        ]
        names = [arm_name(of_arm) or experiment.name for of_arm in levels]
        known = dict(zip(factor_labels(levels, names), names, strict=True))
    return {label: known.get(label, label.replace(", ", ",")) for label in labels}


def _claim(result: Mapping[str, Any], experiment: Experiment | None) -> dict[str, Any] | None:
    """Returns the archived claim with what the experiment file says must be true of the runs."""
    declared = experiment.claim.record() if experiment and experiment.claim else {}
    return {**declared, **result["claim"]} if result["claim"] else None


def _floors(result: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, RunFloors] | None:
    """Returns the archived floors by arm; None if an arm has none."""
    found = {names[arm["name"]]: parse_floors(arm.get("floors")) for arm in result["arms"]}
    return found if all(found.values()) else None


def _arm(arm: Mapping[str, Any], names: Mapping[str, str]) -> Arm:
    factors = dict(part.partition("=")[::2] for part in _BETWEEN_FACTORS.split(arm["name"]))
    return Arm(names[arm["name"]], arm["name"], factors, arm["overrides"], {"total": arm["parameters"]})


def _runs(
    result: Mapping[str, Any], rows: Sequence[Mapping[str, str]], names: Mapping[str, str], base: Mapping[str, Any]
) -> Iterator[RunRecord]:
    arms = {arm["name"]: arm for arm in result["arms"]}
    for row in rows:
        arm, seed = arms[row["arm"]], int(row["seed"])
        values = {name: float(text) for name, text in row.items() if name not in ("arm", "seed", "state") and text}
        identities = dict(zip(result["seeds"], arm.get("configs") or (), strict=False))
        meta = {name: value for name in ("device", "processor", "versions") if (value := result.get(name)) is not None}
        meta |= {"identity": identities[seed]} if identities.get(seed) else {}
        config = unflatten({**base, **arm["overrides"], "seed": seed})
        status = {"state": row["state"], "step": int(values.get("step", 0))}
        folder = Path(f"{names[row['arm']]}-seed{seed}")
        yield RunRecord(folder, names[row["arm"]], seed, config, meta, status, [values])


def _contrast(row: Mapping[str, str], names: Mapping[str, str], experiment: Experiment | None) -> Contrast:
    """Returns an archived contrast, with what the experiment file declares of the same name."""
    rule, _, condition = row["rule"].partition(": ")
    if rule not in RULES:
        raise ValueError(f'contrast "{row["contrast"]}": the rule {row["rule"]!r} begins with none of {RULES}')
    margin = re.search(r"(?:more than|at most|within) ([\d.e-]+)", condition)
    sides = [Side(names[row[side]], row[f"metric {side}"]) for side in "ab"]
    archived = Contrast(
        row["contrast"], *sides, rule, float(margin[1]) if margin else 0.0, "", claim=row.get("claim") or ""
    )
    declared = {one.name: one for one in named_contrasts(experiment)} if experiment else {}
    if (found := declared.get(archived.name)) is None:
        return archived
    same = (found.rule, rule_text(found)) == (archived.rule, rule_text(archived))
    margin_of = found if same else archived
    claim = found.claim or archived.claim
    return replace(found, a=archived.a, b=archived.b, rule=archived.rule, margin=margin_of.margin, claim=claim)


def _grid(result: Mapping[str, Any], rows: Sequence[Mapping[str, str]], names: Mapping[str, str]) -> TuningGrid | None:
    """Returns the scores of tuning.csv; its arms have their names, those of older archives labels."""
    tuning = result["tuning"] or {}
    if not rows:
        return None
    field, metric = tuning["field"], next(name for name in rows[0] if "/" in name)
    scores = tuning.get("scores") or {}
    # Archives from before result.json had the scores have the rounded table alone.
    for row in () if scores else rows:
        of_arm = scores.setdefault(row["arm"], {})
        of_arm.setdefault(row[field], {})[row["seed"]] = float(row[metric]) if row[metric] else None
    arms: dict[str, dict[float, dict[int, float]]] = {
        names.get(arm, arm): {
            float(value): {int(seed): math.inf if score is None else score for seed, score in by_seed.items()}
            for value, by_seed in by_value.items()
        }
        for arm, by_value in scores.items()
    }
    points = {arm: [GridPoint(value, scores) for value, scores in sorted(found.items())] for arm, found in arms.items()}
    chosen = {names.get(arm, arm): value for arm, value in tuning["chosen"].items()}
    return TuningGrid(field, metric, tuning["seeds"], points, chosen)
