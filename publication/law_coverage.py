"""Coverage of the intervals of scaling laws on simulated sweeps, for docs/scaling_laws.md.

A row of law_coverage.csv is a ladder of sizes 16 times apart in compute, a number of seeds and a
target. Its numbers are per cent of 1,000 simulated ladders whose 95 % interval has the true value.
The law and the noise are like those of the sizes `zoo.lab.sizes.RUNGS` on the shared text.
"""

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zoo.files import write_atomic
from zoo.lab.statistics.compute_factor import compute_factor
from zoo.lab.statistics.compute_law import EXPONENTS, LEAST_SIZES, fit_compute_law
from zoo.lab.statistics.effect_slope import effect_slope
from zoo.lab.statistics.power_law import PowerLaw, fit_power_law
from zoo.lab.statistics.size_token_law import SizeTokenLosses, fit_size_token_law
from zoo.lab.statistics.sized_losses import SizedLosses

DOCS = Path(__file__).resolve().parents[1] / "docs"
LADDERS, BOOTSTRAPPED, RESAMPLES = 1_000, 200, 199
STEP = 16.0
# Loss in nats by compute, divided by that of the smallest size.
LAW = PowerLaw(0.8, 0.9, 0.15)
# The arm's difference at the geometric middle of the ladder, and its change for ten times the compute.
DIFFERENCE, SLOPE = -0.04, 0.01
# Standard deviations: of what the arms of a seed share, and of a paired difference.
SHARED, PAIRED = 0.02, 0.011
# Parameters and tokens of the law of both: Hoffmann et al. 2022, at sizes of their runs.
SIZES, RATIOS, TARGET = (1e8, 4e8, 1.6e9), (5, 20, 80), (6.4e9, 20 * 6.4e9)
HOFFMANN = (1.69, 406.4, 410.7, 0.34, 0.28)


class Setting(NamedTuple):
    """A kind of ladder.

    Attributes:
        sizes, seeds: how many.
        target: "largest" size, or the "next" one, which was not trained.
        noise: "normal", "t(3)", or "halved": normal, of half the standard deviation at each next size.
        bootstrap: whether intervals by resampling seeds are simulated too.
    """

    sizes: int
    seeds: int
    target: str
    noise: str = "normal"
    bootstrap: bool = False


SETTINGS = (
    Setting(2, 5, "largest"),
    Setting(3, 3, "largest"),
    Setting(3, 5, "largest", bootstrap=True),
    Setting(3, 5, "next", bootstrap=True),
    Setting(3, 10, "next"),
    Setting(4, 5, "next"),
    Setting(3, 5, "next", "t(3)"),
    Setting(3, 5, "next", "halved"),
)


def simulated(setting: Setting, random: np.random.Generator) -> tuple[SizedLosses, SizedLosses]:
    """Returns a baseline and an arm."""
    compute = STEP ** np.arange(setting.sizes)
    scale = 0.5 ** np.arange(setting.sizes) if setting.noise == "halved" else np.ones(setting.sizes)
    shape = (3, setting.sizes, setting.seeds)
    heavy = setting.noise == "t(3)"
    drawn = random.standard_t(3, shape) / math.sqrt(3) if heavy else random.standard_normal(shape)
    shared, *own = drawn * scale[:, None]
    losses = np.array([LAW.loss(each) for each in compute])[:, None] + SHARED * shared
    baseline, arm = (losses + PAIRED / math.sqrt(2) * each for each in own)
    arm = arm + np.array([_difference(setting, each) for each in compute])[:, None]
    return _sized(compute, baseline), _sized(compute, arm)


def _difference(setting: Setting, compute: float) -> float:
    return DIFFERENCE + SLOPE * (math.log10(compute) - math.log10(STEP) * (setting.sizes - 1) / 2)


def _sized(compute: np.ndarray, losses: np.ndarray) -> SizedLosses:
    return SizedLosses(compute, tuple(dict(enumerate(map(float, row))) for row in losses))


def coverage_rows(ladders: int = LADDERS, bootstrapped: int = BOOTSTRAPPED) -> Iterator[dict[str, str]]:
    """Yields the rows of the table; the last one is about the law of parameters and tokens."""
    for setting in SETTINGS:
        yield coverage_row(setting, ladders, bootstrapped)
    yield {
        "sizes": f"{len(SIZES)} × {len(RATIOS)} (N, D)",
        "seeds": "5",
        "target": "next",
        "noise": "normal",
        "loss": _per_cent(size_token_hits(ladders) / ladders),
        "slope": "",
        "times the compute": "",
        "loss, seeds resampled": "",
    }


def coverage_row(setting: Setting, ladders: int, bootstrapped: int) -> dict[str, str]:
    """Returns the row of one kind of ladder."""
    random = np.random.default_rng(0)
    hits = {"loss": 0, "slope": 0, "factor": 0, "bootstrap": 0}
    target = STEP ** (setting.sizes - (setting.target == "largest"))
    truth = LAW.loss(target)
    reducible = PowerLaw(LAW.asymptote, truth - LAW.asymptote, LAW.exponent)
    factor = reducible.ratio(_difference(setting, target))
    for index in range(ladders):
        baseline, arm = simulated(setting, random)
        slope = effect_slope(arm.minus(baseline)).slope
        times = compute_factor(baseline, arm, target, math.inf).factor
        hits["slope"] += slope.low <= SLOPE <= slope.high
        hits["factor"] += times.low <= factor <= times.high
        if setting.sizes >= LEAST_SIZES:
            loss = fit_compute_law(baseline, target).loss()
            hits["loss"] += loss.low <= truth <= loss.high
            if setting.bootstrap and index < bootstrapped:
                low, high = resampled_interval(baseline, target, random)
                hits["bootstrap"] += low <= truth <= high
    resampled = min(bootstrapped, ladders) if setting.bootstrap else 0
    return {
        "sizes": str(setting.sizes),
        "seeds": str(setting.seeds),
        "target": setting.target,
        "noise": setting.noise,
        "loss": _per_cent(hits["loss"] / ladders) if setting.sizes >= LEAST_SIZES else "",
        "slope": _per_cent(hits["slope"] / ladders),
        "times the compute": _per_cent(hits["factor"] / ladders),
        "loss, seeds resampled": _per_cent(hits["bootstrap"] / resampled) if resampled else "",
    }


def resampled_interval(losses: SizedLosses, target: float, random: np.random.Generator) -> tuple[float, float]:
    """Returns the percentile interval of the loss at the target, of laws of seeds that are drawn again
    at each size.
    """
    values = [np.array(list(found.values())) for found in losses.losses]
    found = []
    for _ in range(RESAMPLES):
        means = np.array([random.choice(each, len(each)).mean() for each in values])
        law = fit_power_law(losses.compute / target, means, exponents=EXPONENTS)
        found.append(law.loss(1) if law else math.nan)
    low, high = np.nanquantile(found, [0.025, 0.975])
    return float(low), float(high)


def size_token_hits(ladders: int) -> int:
    """Returns how many intervals of the law of parameters and tokens contain the loss at `TARGET`."""
    e, a, b, alpha, beta = HOFFMANN
    random, hits = np.random.default_rng(0), 0
    n = np.repeat(SIZES, len(RATIOS))
    d = n * np.tile(RATIOS, len(SIZES))
    losses = e + a * n**-alpha + b * d**-beta
    truth = e + a * TARGET[0] ** -alpha + b * TARGET[1] ** -beta
    for _ in range(ladders):
        drawn = losses[:, None] + SHARED * random.standard_normal((len(n), 5))
        data = SizeTokenLosses(n, d, tuple(dict(enumerate(map(float, row))) for row in drawn))
        found = fit_size_token_law(data).loss(*TARGET)
        hits += found.low <= truth <= found.high
    return hits


def _per_cent(share: float) -> str:
    return f"{100 * share:.1f}"


def write() -> Path:
    """Simulates everything, and writes the data file of docs/scaling_laws.md."""
    table, text = list(coverage_rows()), io.StringIO()
    writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    path = DOCS / "comparisons" / "law_coverage.csv"
    write_atomic(path, text.getvalue())
    return path
