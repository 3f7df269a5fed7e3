"""Error rates of verdicts on simulated sweeps, for docs/comparisons.md.

A row of error_rates.csv is a kind of noise, what is known of it, and a plan of seeds; its numbers are
shares of sweeps, in per cent. Differences are in standard deviations of a paired difference.
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from zoo.files import write_atomic
from zoo.lab.declarations import Tune
from zoo.lab.planning.tuning_search import search_state
from zoo.lab.results.noise import noise_of_curves
from zoo.lab.results.tuning_grid import tuned_value
from zoo.lab.statistics.paired import ALPHA
from zoo.lab.statistics.sequential import design_until_decided
from zoo.lab.statistics.simulation import HOLDS, REFUTED, UNDECIDED, SimulatedNoise, outcomes, sequential_outcomes
from zoo.lab.statistics.tuning_curve import MISFIT_LEVEL, misfit_p, total_regret

DOCS = Path(__file__).resolve().parents[1] / "docs"
SWEEPS = 20_000
TUNED_SWEEPS = 1_000
# Degrees of freedom of the noise that other differences of the same arms tell.
KNOWN_DF = 14
# Seeds and values of the tuning runs through which a curve is fitted.
TUNING_SEEDS, TUNING_VALUES = 3, 4
# Standard deviation of what a seed does to one arm and not to the other, at all values alike, in those
# of a run: more than in the archived contrasts with one tuned number, less than in those with two.
INTERACTION = 0.8
PLANS: Mapping[str, Mapping[int, float]] = {
    "3": {3: ALPHA},
    "6": {6: ALPHA},
    "10": {10: ALPHA},
    "3 to 6": design_until_decided(3, 6).levels,
    "3 to 10": design_until_decided(3, 10).levels,
    "6 to 10": design_until_decided(6, 10).levels,
}
# Share of the seeds that end far off, and by how many standard deviations of a run.
CONTAMINATED, FAR = 0.15, 8.0
# The arm that breaks down loses this much, in nats, above this multiple of its best rate.
CLIFF, BREAKDOWN = 0.1, 1.8
# Run noise and curvatures of the archived sweeps of the size tiny, in nats and nats per ln^2.
RUN_SD, CURVATURES = 0.014, (0.03, 0.06, 0.12, 0.2)


def run_noise(kind: str, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the noise of single runs, with mean 0; its standard deviation is 1 but for outliers."""
    if kind == "normal":
        return random.standard_normal(shape)
    if kind == "t(3)":
        return random.standard_t(3, shape) / math.sqrt(3)
    if kind == "heteroscedastic":
        # The standard deviation of a seed varies by a factor of about 5 (log-normal, sigma 0.8).
        scale = np.exp(0.8 * random.standard_normal((*shape[:-2], 1, shape[-1])) - 0.64)
        return random.standard_normal(shape) * scale
    if kind == "log-normal":
        return (random.lognormal(0, 1, shape) - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)
    far = FAR * (random.random(shape) < CONTAMINATED)
    return random.standard_normal(shape) + far - FAR * CONTAMINATED


KINDS = ("normal", "t(3)", "heteroscedastic", "log-normal", "contaminated")
# From which runs the noise is known.
PAIRS, TUNING_RUNS, NOT_KNOWN = "other pairs", "tuning runs", "no"


def differences(kind: str, alike: bool, random: np.random.Generator, sweeps: int, seeds: int) -> np.ndarray:
    """Returns paired differences [sweeps, seeds] of two arms with equal means.

    Args:
        kind: of the noise.
        alike: whether both arms have it; else arm b has normal noise, or for "log-normal" none, and
            only the means agree.
        random: random numbers.
        sweeps, seeds: how many.
    """
    a, b = arms_noise(kind, alike, random, sweeps, 1, seeds)
    return (a - b)[:, 0]


def arms_noise(
    kind: str, alike: bool, random: np.random.Generator, sweeps: int, runs: int, seeds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the noise of several runs of each seed in two arms, each [sweeps, runs, seeds]; other
    arguments as in `differences`.
    """
    if alike:
        both = run_noise(kind, random, (sweeps, 2 * runs, seeds))
        return both[:, :runs], both[:, runs:]
    a = run_noise(kind, random, (sweeps, runs, seeds))
    return a, np.zeros_like(a) if kind == "log-normal" else random.standard_normal(a.shape)


def with_interaction(
    kind: str, alike: bool, random: np.random.Generator, sweeps: int, seeds: int
) -> tuple[np.ndarray, SimulatedNoise]:
    """Returns paired differences of arms on which a seed acts unlike, and their noise as the tuning
    runs of both arms tell it.
    """
    a, b = arms_noise(kind, alike, random, sweeps, 2, seeds)
    d = INTERACTION * (a - b)[:, 0] + (a - b)[:, 1]
    a, b = arms_noise(kind, alike, random, sweeps, TUNING_VALUES + 1, TUNING_SEEDS)
    return d, noise_of_tuning(INTERACTION * (a - b)[:, 0], a[:, 1:], b[:, 1:])


def noise_of_tuning(effects: np.ndarray, *arms: np.ndarray) -> SimulatedNoise:
    """Returns the noise of a difference by the tuning runs of two arms, for many sweeps at once: that
    of `zoo.lab.results.noise.noise_of_curves`.

    Args:
        effects: what each seed does to the first arm and not to the second [sweeps, seeds].
        arms: the noise of the runs of each arm [sweeps, values, seeds]; the logarithms of the values
            are equally far apart.
    """
    sweeps, values, seeds = arms[0].shape
    x = np.repeat(np.arange(values) - (values - 1) / 2, seeds)
    design = np.column_stack([np.tile(np.eye(seeds), (values, 1)), x, x**2])
    residual_of, df = np.eye(len(x)) - design @ np.linalg.pinv(design), len(x) - design.shape[1]
    of_effects = (effects + arms[0].mean(1) - arms[1].mean(1)).var(1, ddof=1)
    of_runs = [np.square(arm.reshape(sweeps, -1) @ residual_of).sum(1) / df for arm in arms]
    parts = [(of_effects, seeds - 1), *(((1 - 1 / values) * variance, df) for variance in of_runs)]
    total = sum(part for part, _ in parts)
    return SimulatedNoise(np.sqrt(total), total**2 / sum(part**2 / freedom for part, freedom in parts))


def rate_rows() -> Iterator[dict[str, str]]:
    """Yields the rows of given settings: both arms alike, or only their means."""
    for kind in KINDS:
        for alike in (True, False):
            if not alike and kind not in ("log-normal", "contaminated"):
                continue
            for known in (PAIRS, TUNING_RUNS, NOT_KNOWN):
                random = np.random.default_rng(0)
                if known == TUNING_RUNS:
                    d, noise = with_interaction(kind, alike, random, SWEEPS, 10)
                    sd = float(with_interaction(kind, alike, random, 200_000, 1)[0].std())
                else:
                    d = differences(kind, alike, random, SWEEPS, 10)
                    other = differences(kind, alike, random, SWEEPS, KNOWN_DF + 1)
                    noise = SimulatedNoise(other.std(1, ddof=1), KNOWN_DF) if known == PAIRS else None
                    sd = float(differences(kind, alike, random, 200_000, 1).std())
                row = {"noise": kind, "arms": "both alike" if alike else "only the means agree", "noise known": known}
                for name, levels in PLANS.items():
                    found = sequential_outcomes(d, "superiority", 0.0, levels, noise=noise)
                    row[name] = _per_cent((found != UNDECIDED).mean())
                for rule in ("non_inferiority", "equivalence"):
                    found = sequential_outcomes(d + sd, rule, sd, PLANS["3 to 10"], noise=noise)
                    words = rule.replace("_", "-")
                    row[f"{words} at the margin holds"] = _per_cent((found == HOLDS).mean())
                    row[f"{words} at the margin refuted"] = _per_cent((found == REFUTED).mean())
                yield row


def tuned_rows() -> Iterator[dict[str, str]]:
    """Yields the rows of arms that are tuned by the search of `zoo run`, equal at their own optima."""
    plain = [(kind, 0.0, INTERACTION) for kind in ("normal", "t(3)", "log-normal", "contaminated")]
    for kind, cliff, own in (("normal", 0.0, 0.0), *plain[:1], ("normal", CLIFF, INTERACTION), *plain[1:]):
        for curvature in CURVATURES:
            random = np.random.default_rng(0)
            arms = [_tuned_arm(kind, curvature, random, (cliff, 0.0)[arm % 2], own) for arm in range(2 * TUNED_SWEEPS)]
            pairs = [pair for pair in zip(arms[::2], arms[1::2], strict=True) if None not in pair]
            alike = "" if own else ", seeds act alike"
            row = {"noise": kind + alike + (", one arm breaks down" if cliff else ""), "curvature": f"{curvature:g}"}
            row["tuned"] = _per_cent(len(pairs) / TUNED_SWEEPS)
            row["named"] = _per_cent(np.mean([any(arm[4] < MISFIT_LEVEL for arm in pair) for pair in pairs]))
            row["regret"] = f"{np.mean([arm[0] for pair in pairs for arm in pair]):.4f}"
            row["runs of an arm"] = f"{np.mean([arm[3] for pair in pairs for arm in pair]):.1f}"
            regret = np.array([a[0] - b[0] for a, b in pairs])
            both = run_noise(kind, random, (len(pairs), 2, 10)) + own * run_noise(kind, random, (len(pairs), 2, 10))
            d = regret[:, None] + RUN_SD * (both[:, 0] - both[:, 1])
            curves = [(a[1], b[1]) for a, b in pairs]
            noise = [noise_of_curves([(1.0, a), (-1.0, b)]) for a, b in curves]
            known = SimulatedNoise(np.array([one.sd for one in noise]), np.array([one.df for one in noise]))
            regrets = [[total_regret([curve]) for curve in pair] for pair in curves]
            parts = np.array([[(one.mean_square, one.df) for one in pair] for pair in regrets])
            squares = parts[..., 0].sum(1)
            squares_df = squares**2 / (parts[..., 0] ** 2 / parts[..., 1]).sum(1)
            for seeds in (3, 6, 10):
                levels = {seeds: ALPHA}
                found = sequential_outcomes(
                    d, "superiority", 0.0, levels, noise=known, regret=squares, regret_df=squares_df
                )
                row[f"{seeds} seeds"] = _per_cent((found != UNDECIDED).sum() / TUNED_SWEEPS)
            yield row


def _tuned_arm(kind: str, curvature: float, random: np.random.Generator, cliff: float, own: float):
    """Returns (regret, curve, value, number of runs, p of the parabola) of one arm; None if it is not
    tuned. Above `BREAKDOWN` times its best rate the arm loses `cliff`; seeds act on it by `own` times
    the noise of a run, at all rates alike.
    """
    tune = Tune("optimizer.learning_rate", (0.002, 0.005, 0.0125))
    best = math.log(0.005) + random.uniform(-0.5, 0.5)
    # What a seed does to both arms alike is left out: it changes neither curve nor difference.
    effects = own * RUN_SD * run_noise(kind, random, (1, 1, len(tune.seeds)))[0, 0]
    shift = dict(zip(tune.seeds, map(float, effects), strict=True))
    losses: dict[float, dict[int, float]] = {}

    def expected(value: float) -> float:
        x = math.log(value) - best
        return curvature * x**2 + (cliff if x > math.log(BREAKDOWN) else 0.0)

    while (state := search_state(tune, losses)).trials:
        for value, seeds in state.trials.items():
            loss = expected(value)
            for seed in seeds:
                noise = RUN_SD * float(run_noise(kind, random, (1, 1, 1))[0, 0, 0])
                losses.setdefault(value, {})[seed] = loss + shift[seed] + noise
    if state.curve.problem:
        return None
    value = tuned_value(tune, losses, state.curve)
    runs = sum(map(len, losses.values()))
    p = misfit_p({value: losses[value] for value in state.curve.values})
    return expected(value), state.curve, value, runs, p


def power_rows() -> Iterator[dict[str, str]]:
    """Yields, for true differences of 0, the share of sweeps in which a rule with a margin holds, with
    two one-sided tests and with a two-sided interval.
    """
    random = np.random.default_rng(0)
    d = random.standard_normal((SWEEPS, 10))
    noise = SimulatedNoise(random.standard_normal((SWEEPS, KNOWN_DF + 1)).std(1, ddof=1), KNOWN_DF)
    for rule in ("non_inferiority", "equivalence"):
        for margin in (1.0, 1.5, 2.0):
            row = {"rule": rule.replace("_", "-"), "margin": f"{margin:g}"}
            for name, levels in PLANS.items():
                one = sequential_outcomes(d, rule, margin, levels, noise=noise)
                halved = {seeds: alpha / 2 for seeds, alpha in levels.items()}
                two = sequential_outcomes(d, rule, margin, halved, noise=noise)
                row[name] = f"{_per_cent((one == HOLDS).mean())} ({_per_cent((two == HOLDS).mean())})"
            yield row


def several_rows() -> Iterator[dict[str, str]]:
    """Yields, for claims of several contrasts that share their arm b, the share that is decided.

    All arms are alike. "superiority": of 0; "at the margin": non-inferiority within one deviation, by
    which every arm a is behind, the case in which a true claim is refuted most often.
    """
    looks = PLANS["3 to 10"]
    for kind in KINDS:
        for contrasts in (3, 6):
            random = np.random.default_rng(0)
            runs = run_noise(kind, random, (SWEEPS, contrasts + 1, 10))
            others = run_noise(kind, random, (SWEEPS, contrasts, 2, KNOWN_DF + 1))
            sd = (others[:, :, 0] - others[:, :, 1]).std(2, ddof=1)
            d, unit = runs[:, 1:] - runs[:, :1], math.sqrt(2)
            row = {"noise": kind, "contrasts": str(contrasts)}
            for name, rule, margin in (("superiority", "superiority", 0.0), ("at the margin", "non_inferiority", unit)):
                supported, refuted = _claims(d + margin, sd, rule, margin, looks)
                row[f"{name}: supported"], row[f"{name}: not supported"] = _per_cent(supported), _per_cent(refuted)
            yield row


def _claims(d: np.ndarray, sd: np.ndarray, rule: str, margin: float, looks: Mapping[int, float]) -> tuple[float, float]:
    """Returns the shares of claims that are supported and not, at the first look that decides.

    Args:
        d: differences [claims, contrasts, seeds].
        sd: known noise of each [claims, contrasts].
        rule, margin: of every contrast.
        looks: {number of seeds: two-sided alpha}.
    """
    count = d.shape[1]
    verdict = np.full(len(d), UNDECIDED)
    for seeds, alpha in looks.items():
        # By Holm's procedure a claim has a refutation if the smallest p is below alpha / contrasts.
        plain, corrected = (
            np.array(
                [
                    outcomes(d[:, one, :seeds], rule, margin, level, SimulatedNoise(sd[:, one], KNOWN_DF))
                    for one in range(count)
                ]
            )
            for level in (alpha, alpha / count)
        )
        holds, refuted = (plain == HOLDS).all(0), (corrected == REFUTED).any(0)
        found = np.where(refuted, REFUTED, np.where(holds, HOLDS, UNDECIDED))
        verdict = np.where(verdict == UNDECIDED, found, verdict)
    return float((verdict == HOLDS).mean()), float((verdict == REFUTED).mean())


def _per_cent(share: float) -> str:
    return f"{100 * share:.1f}"


def write() -> list[Path]:
    """Simulates everything and writes the data files beside docs/comparisons.md."""
    files = {
        "error_rates": rate_rows,
        "error_rates_tuned": tuned_rows,
        "error_rates_of_claims": several_rows,
        "power": power_rows,
    }
    written = []
    for name, rows in files.items():
        table, text = list(rows()), io.StringIO()
        writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
        path = DOCS / "comparisons" / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, text.getvalue())
        written.append(path)
    return written
