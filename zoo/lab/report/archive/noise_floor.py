"""The smallest difference that an experiment of a given size can find, from the archived runs.

`zoo.lab.results.noise.residual_noise` has the model.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from zoo.errors import ConfigError
from zoo.files import read_json, write_atomic
from zoo.lab.results.noise import residual_noise
from zoo.lab.statistics.paired import ALPHA
from zoo.lab.statistics.sequential import POWER, detectable_effect

NOISE_FILE = "noise_floor.md"
SEEDS = (3, 5, 10)
# Times the median arm's standard deviation over seeds, beyond which an arm does not count.
OUTLYING = 10
_METRICS = ("eval/loss", "eval/bits_per_byte", "eval/accuracy", "eval/next_accuracy")
_HEAD = (
    "# The noise floor",
    "",
    "Written by `zoo results --noise` from the runs of the archived sweeps. The difference of two arms, paired by",
    "seed, varies from seed to seed; its standard deviation is the noise. The last columns are the smallest",
    f"difference that three, five and ten seeds find with {100 * POWER:.0f} % power at a level of {100 * ALPHA:.0f} %,",
    "in the metric's unit. Within a sweep, the noise is taken to be the same for all arms; an arm with more than",
    f"{OUTLYING} times the spread of the median arm is left out.",
    "",
    "The arms of a sweep are different models, and a seed does not shift all of them alike. The noise of two equal",
    "arms may therefore be smaller; a sweep of equal arms measures it. The noise of tuning is not in these numbers.",
    "",
)


@dataclass(frozen=True)
class NoiseFloor:
    """The noise of one metric in one sweep.

    Attributes:
        sweep, size: name and size of the experiment.
        parameters: largest number among its arms; 0 if not recorded.
        tokens: of the training of a run.
        sources, objectives: what the runs were trained on and for (`zoo.lab.planning.trained_on`).
        metric: the metric.
        arms, seeds: how many were compared.
        sd: standard deviation of the paired difference of two arms, in the metric's unit.
        low, high: 95 % interval of `sd`, from the chi-squared distribution.
    """

    sweep: str
    size: str
    parameters: int
    tokens: int
    sources: tuple[str, ...]
    objectives: tuple[str, ...]
    metric: str
    arms: int
    seeds: int
    sd: float
    low: float
    high: float

    def detectable(self, seeds: int) -> float:
        """Returns the smallest difference that a number of seeds finds with 80 % power."""
        return detectable_effect(seeds) * self.sd


def paired_noise(values: np.ndarray) -> tuple[float, float, float]:
    """Returns the SD of the paired difference of two arms, and its 95 % interval.

    Args:
        values: [arms, seeds], two of each at least.
    """
    sd, df = residual_noise(values)
    low, high = (sd * math.sqrt(df / bound) for bound in stats.chi2.ppf([1 - ALPHA / 2, ALPHA / 2], df))
    return sd, low, high


def without_outlying(values: np.ndarray) -> np.ndarray:
    """Returns the arms [arms, seeds] without those that vary much more than the median arm; at least
    two are kept.
    """
    spreads = values.std(axis=1, ddof=1)
    kept = values[spreads <= OUTLYING * np.median(spreads)]
    return kept if len(kept) > 1 else values


def noise_floors(output: Path) -> Iterator[NoiseFloor]:
    """Yields the noise of every metric of every archived sweep with two arms and two seeds at least.

    Seeds that an arm lacks, because a run diverged, are left out for all arms.

    Raises:
        ConfigError: an archived result cannot be read.
    """
    for path in sorted(output.glob("*/result.json")):
        try:
            result = read_json(path)
            with open(path.with_name("runs.csv"), encoding="utf-8", newline="") as file:
                runs = list(csv.DictReader(file))
            for metric in _METRICS:
                by_arm: dict[str, dict[str, float]] = {}
                for run in runs:
                    if run["state"] == "done" and run.get(metric) and math.isfinite(float(run[metric])):
                        by_arm.setdefault(run["arm"], {})[run["seed"]] = float(run[metric])
                common = sorted(set.intersection(*map(set, by_arm.values()))) if by_arm else []
                if len(by_arm) > 1 and len(common) > 1:
                    values = np.array([[of_seed[seed] for seed in common] for of_seed in by_arm.values()])
                    values = without_outlying(values)
                    yield NoiseFloor(
                        result["name"],
                        result["size"],
                        max((arm["parameters"] or 0 for arm in result["arms"]), default=0),
                        max(int(run["tokens"]) for run in runs),
                        tuple(result.get("sources", ())),
                        tuple(result.get("objectives", ())),
                        metric,
                        *values.shape,
                        *paired_noise(values),
                    )
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{path}: not readable as a result ({type(error).__name__}: {error})") from error


def write_noise_floor(output: Path) -> Path:
    """Writes `output`/noise_floor.md and returns its path.

    Raises:
        ConfigError: as `noise_floors`, or the page cannot be written.
    """
    page = output / NOISE_FILE
    try:
        write_atomic(page, "\n".join(_lines(noise_floors(output))))
    except OSError as error:
        raise ConfigError(f"{page} cannot be written ({error.strerror or error})") from error
    return page


def _lines(floors: Iterable[NoiseFloor]) -> Iterator[str]:
    columns = ["experiment", "size", "parameters", "tokens", "text", "objective", "metric", "arms x seeds"]
    columns += ["SD of a paired difference (95 % interval)", *(f"{seeds} seeds" for seeds in SEEDS)]
    yield from (*_HEAD, f"| {' | '.join(columns)} |", f"|{' --- |' * 9}{' ---: |' * len(SEEDS)}")
    for floor in sorted(floors, key=lambda floor: (floor.metric, floor.parameters, floor.tokens, floor.sweep)):
        found = " | ".join(f"{floor.detectable(seeds):.2g}" for seeds in SEEDS)
        yield (
            f"| {floor.sweep} | {floor.size} | {floor.parameters:,} | {floor.tokens:,} | "
            f"{_few(floor.sources)} | {_few(floor.objectives)} | {floor.metric} | "
            f"{floor.arms} x {floor.seeds} | {floor.sd:.2g} ({floor.low:.2g} to {floor.high:.2g}) | {found} |"
        )
    yield ""


def _few(names: Sequence[str]) -> str:
    """Returns up to two names, and how many others there are."""
    return ", ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} others"
