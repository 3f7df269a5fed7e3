"""The gain of each feature of a recipe, and what of the gains does not add up.

The arms of such a sweep are the levels of one factor, named by the features that are left out of the
recipe or added to the base (`zoo.lab.planning.leave_one_out`).
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from zoo.lab.formatting import confidence_level, count, difference_columns
from zoo.lab.metrics import equal_by_chance, higher_is_better
from zoo.lab.planning.evaluations import why_not_ranked
from zoo.lab.planning.leave_one_out import ADD, EVERYTHING, LEAVE_OUT, NOTHING, SEPARATOR
from zoo.lab.results.curves import final_values
from zoo.lab.results.noise import noise_of_others, regrets_of_sum, shows_seeds, tuning_noise
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.statistics.noise import Noise
from zoo.lab.statistics.paired import PairedDifference, holm, mean_difference


@dataclass(frozen=True)
class FeatureGains:
    """Gains of features in a metric; positive: the arm with the feature is the better one.

    Attributes:
        adds: features were added to a base; else they were left out of a recipe.
        each: by feature, its gain beside the recipe without it, or beside the base.
        together: the gain of the recipe beside the base.
        remainder: the part of `together` that is not the sum of `each`.
        pairs: by pair with an arm of its own, its gain minus those of its two features. In a recipe
            that leaves out, a positive number says that the two replace each other in part; in one
            that adds, that each gains more beside the other.
    """

    adds: bool
    each: dict[str, PairedDifference]
    together: PairedDifference
    remainder: PairedDifference
    pairs: dict[tuple[str, str], PairedDifference]


def feature_gains(sweep: SweepResults) -> FeatureGains | None:
    """Returns the gains of a sweep's features; None for other sweeps, and if arms are not ranked.

    Gains are sums of arms with weights c that add up to 0, computed seed by seed. As those of
    differences do (`zoo.lab.statistics.paired`), their intervals count the noise that other runs tell
    and tuning. The first is that of the tuning runs of all arms (`tuning_noise` of
    `zoo.lab.results.noise`), or s_0^2 sum(c^2) / 2 for another known s_0 of differences of two arms.
    The second are the mean squares of the sums of the regrets with weights above 0, and of those with
    weights below.
    """
    factor = next((name for name in (LEAVE_OUT, ADD) if all(set(arm.factors) == {name} for arm in sweep.arms)), None)
    if factor is None or why_not_ranked(sweep.warnings, sweep.metric):
        return None
    arms = {arm.factors[factor]: arm.name for arm in sweep.arms}
    if not {NOTHING, EVERYTHING} <= arms.keys():
        return None
    names = [level for level in arms if level not in (NOTHING, EVERYTHING) and SEPARATOR not in level]
    # A lower loss is a gain, and so is a higher loss of an arm without the feature.
    sign = (1 if higher_is_better(sweep.metric) else -1) * (1 if factor == ADD else -1)

    def gain(weights: Mapping[str, float]) -> PairedDifference:
        return _combination(sweep, {arms[level]: sign * weight for level, weight in weights.items() if weight})

    level_of = {frozenset(names): EVERYTHING} | {
        frozenset(level.split(SEPARATOR)): level for level in arms if SEPARATOR in level
    }
    pairs = {
        pair: gain({level_of[frozenset(pair)]: 1, NOTHING: 1, pair[0]: -1, pair[1]: -1})
        for pair in itertools.combinations(names, 2)
        if frozenset(pair) in level_of
    }
    return FeatureGains(
        factor == ADD,
        {name: gain({name: 1, NOTHING: -1}) for name in names},
        gain({EVERYTHING: 1, NOTHING: -1}),
        gain({EVERYTHING: 1, NOTHING: len(names) - 1, **dict.fromkeys(names, -1)}),
        pairs,
    )


def _combination(sweep: SweepResults, weights: Mapping[str, float]) -> PairedDifference:
    """Returns the sum of arms times weights, paired by seed, with its interval."""
    values = {arm: final_values(sweep, arm, sweep.metric) for arm in weights}
    seeds = set.intersection(*(set(found) for found in values.values()))
    sums = {seed: sum(weight * values[arm][seed] for arm, weight in weights.items()) for seed in sorted(seeds)}
    noise = tuning_noise(sweep, weights)
    if noise is None or not shows_seeds(sweep, weights):
        known = noise_of_others(sweep, sweep.metric, set(list(weights)[:2]))
        scale = math.sqrt(sum(weight**2 for weight in weights.values()) / 2)
        noise = noise if known is None else Noise(known.sd * scale, known.df, known.source)
    by_chance = equal_by_chance(sweep.metric)
    return mean_difference(sums, sweep.alpha, noise, regrets_of_sum(sweep, weights), by_chance)


def gain_lines(sweep: SweepResults) -> list[str]:
    """Returns the gains in sentences: of each feature, of all, and of what does not add up.

    A pair is named if its p value is below the level after correction for the number of pairs (Holm).
    """
    found = feature_gains(sweep)
    if found is None or not any(one.n for one in (*found.each.values(), found.together)):
        return []
    level, metric = confidence_level(sweep.alpha), sweep.metric
    how = "added to the base" if found.adds else "left out of the recipe"
    everything = [*found.each.values(), found.together, found.remainder]
    texts = [_text(one, len(sweep.seeds)) for one in everything]
    each = "; ".join(f"{name} {text}" for name, text in zip(found.each, texts, strict=False))
    lines = [
        f"gain in {metric} of each feature, {how} ({level} intervals; positive: better with it): {each}",
        f"all features together gain {texts[-2]}, of which {texts[-1]} is not the sum of their own gains",
    ]
    if found.pairs:
        corrected = holm([one.p for one in found.pairs.values()])
        clear = {pair: one for (pair, one), p in zip(found.pairs.items(), corrected, strict=True) if p < sweep.alpha}
        named = "; ".join(f"{SEPARATOR.join(pair)} {_text(one, len(sweep.seeds))}" for pair, one in clear.items())
        rest = "no pair gains clearly more or less than its two features"
        lines.append(f"what does not add up, of {len(found.pairs)} pairs with arms of their own: {named or rest}")
    return lines


def _text(difference: PairedDifference, seeds: int) -> str:
    """Returns a gain with its interval, and how many seeds have it where some of their runs diverged
    or are not done.
    """
    if not difference.n:
        return f"unknown (0 of {count(seeds, 'seed')} with finite values)"
    (mean,), (between,) = difference_columns([(difference.mean, difference.low, difference.high)])
    notes = [between] if difference.n > 1 else []
    notes += [f"{difference.n} of {count(seeds, 'seed')} with finite values"] if difference.n < seeds else []
    return f"{mean} ({'; '.join(notes)})" if notes else mean
