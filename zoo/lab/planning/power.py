"""Statements about what a plan can decide, before anything is trained."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zoo.lab.declarations import Contrast
from zoo.lab.formatting import count
from zoo.lab.metrics import unit_suffix
from zoo.lab.planning.known_noise import FITTED_SEEDS
from zoo.lab.statistics.noise import Noise
from zoo.lab.statistics.paired import ALPHA
from zoo.lab.statistics.sequential import POWER
from zoo.lab.statistics.simulation import found_difference, seeds_that_suffice, share_that_holds

# Degrees of freedom of the noise that tuning runs of two arms tell, the median of the archive.
OF_TUNING_RUNS = 9


def power_lines(
    contrasts: Sequence[Contrast],
    seeds: int,
    looks: Mapping[int, float],
    noise: Mapping[str, Noise],
    metric: str,
    tuned: bool = False,
) -> Iterator[str]:
    """Yields what a number of seeds finds, and how often the rules of the contrasts will hold.

    Args:
        contrasts: planned, with names of metrics.
        seeds: number of seeds of a single analysis.
        looks: {number of seeds: level} if seeds are added; then `seeds` does not count.
        noise: {metric: SD of paired differences}, as earlier sweeps tell it.
        metric: of the experiment.
        tuned: whether tuning runs with several seeds will tell the noise of this metric: a known
            standard deviation is the best guess of theirs, and will be as well known as theirs is.
    """
    levels = dict(looks) or {seeds: ALPHA}
    if max(levels) < 2:
        yield "1 seed detects no difference: there is no interval"
        return
    shown = f"{max(levels)} seeds" if not looks else f"up to {max(levels)} seeds"
    known, unit = noise.get(metric), unit_suffix(metric)
    if known is None:
        found = found_difference(levels, 1.0, df=OF_TUNING_RUNS if tuned else 0)
        yield (
            f"{shown} find a difference of {found:.1f} SD of the paired differences in {100 * POWER:.0f} % of sweeps; "
            "what the SD is, no earlier sweep tells (--noise-from DIR)"
        )
        return
    found = found_difference(levels, known.sd, OF_TUNING_RUNS if tuned else known.df)
    yield (
        f"with {shown} and noise of {known.sd:.2g}{unit} (SD of paired differences, {known.source}), a difference of "
        f"{found:.2g}{unit} is found in {100 * POWER:.0f} % of sweeps"
    )
    for contrast in contrasts:
        own, unit = noise.get(contrast.a.metric or metric), unit_suffix(contrast.a.metric or metric)
        # What a difference of two metrics varies by, no noise of one of them tells.
        same = (contrast.a.metric or metric) == (contrast.b.metric or metric)
        if own is None or not same or contrast.rule not in ("non_inferiority", "equivalence"):
            continue
        df = OF_TUNING_RUNS if tuned and (contrast.a.metric or metric) == metric else own.df
        share = share_that_holds(contrast.rule, contrast.margin, levels, own.sd, df=df)
        rule = f"{contrast.rule.replace('_', '-')} within {contrast.margin:g}{unit}"
        line = (
            f'  "{contrast.name}": {rule} stays undecided in {100 * (1 - share):.0f} % of sweeps whose arms are equal'
        )
        if share < POWER:
            needed = seeds_that_suffice(contrast.rule, contrast.margin, own.sd, df=df)
            line += f"; {100 * POWER:.0f} % are decided with " + (count(needed, "seed") if needed else "over 100 seeds")
        yield line


def fitted_line(found: Mapping[str, Any], metric: str) -> str:
    """Returns what sweeps with fitted settings find, whose intervals have the uncertainty of the fit.

    Args:
        found: from `zoo.lab.planning.known_noise.found_with_fit`.
        metric: of the experiment.
    """
    return (
        f"archived sweeps of this size with fitted settings and {FITTED_SEEDS} seeds, whose intervals count tuning "
        f"too, find {found['difference']:.2g}{unit_suffix(metric)} (the median of {count(found['sweeps'], 'sweep')})"
    )


def conjunction_lines(contrasts: Sequence[Contrast], claims: Sequence[str]) -> Iterator[str]:
    """Yields a line for each claim that is a conjunction of several contrasts.

    Args:
        contrasts: of the experiment.
        claims: identifiers of its claims.
    """
    for claim in claims:
        own = [one for one in contrasts if one.claim in ("", claim) and one.rule != "equal"]
        if len(own) > 1:
            yield (
                f"  {claim} is a conjunction of {len(own)} contrasts: where each of them holds in "
                f"{100 * POWER:.0f} % of sweeps, independently, not all do in {100 * (1 - POWER ** len(own)):.0f} %"
            )
