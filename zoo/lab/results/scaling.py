"""The law of each arm from its losses at several sizes, the slope of its effect, times the compute.

`zoo.lab.statistics` has the estimates. This module chooses what the sizes of a ladder allow, and says
what they do not.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zoo.errors import ConfigError
from zoo.lab.formatting import number
from zoo.lab.results.ladder import Ladder, size_token_losses, sized_losses
from zoo.lab.statistics.compute_factor import ComputeFactor, compute_factor
from zoo.lab.statistics.compute_law import LEAST_SIZES, ComputeLaw, fit_compute_law
from zoo.lab.statistics.effect_slope import EffectSlope, effect_slope
from zoo.lab.statistics.size_token_law import LEAST_RANGE, SizeTokenLaw, fit_size_token_law
from zoo.lab.statistics.sized_losses import SAME_SIZE, Estimate

# One step of the ladder of `zoo.lab.sizes`: 4 times the parameters and 4 times the tokens.
LARGEST_EXTRAPOLATION = 16.0
# A law that the noise of seeds would miss by this much in fewer cases is doubted.
DOUBTFUL = 0.05


@dataclass(frozen=True)
class ScaledArm:
    """The estimates of an arm.

    Attributes:
        name: of the arm.
        label: what it is called.
        law: of its compute; None if its sizes allow none.
        size_token_law: of its parameters and tokens; None if its sizes allow none.
        loss: at the target; None without a law.
        slope: of its difference from the baseline; None for the baseline, or with one size.
        factor: times the compute; None for the baseline, or if the sizes allow none.
    """

    name: str
    label: str
    law: ComputeLaw | None = None
    size_token_law: SizeTokenLaw | None = None
    loss: Estimate | None = None
    slope: EffectSlope | None = None
    factor: ComputeFactor | None = None


@dataclass(frozen=True)
class Scaling:
    """A ladder and what it says.

    Attributes:
        ladder: the arms at each size.
        target: compute for which losses are predicted.
        arms: the baseline first.
        notes: sentences about what was not estimated or is doubtful.
    """

    ladder: Ladder
    target: float
    arms: tuple[ScaledArm, ...]
    notes: tuple[str, ...]


def scaling(
    ladder: Ladder, target: float | None = None, asymptote: float | None = None, extrapolate: bool = False
) -> Scaling:
    """Fits what the sizes allow.

    Args:
        ladder: with two sizes or more.
        target: compute of the baseline; None for that of the largest size.
        asymptote: E of all laws, if it is known.
        extrapolate: whether the target may lie more than `LARGEST_EXTRAPOLATION` times beyond the
            sizes.

    Raises:
        ConfigError: a target that is too far, or an asymptote that is not below all losses.
    """
    baseline = sized_losses(ladder.of(ladder.baseline))
    target = float(baseline.compute[-1]) if target is None else target
    beyond = max(target / baseline.compute[-1], baseline.compute[0] / target)
    if beyond > LARGEST_EXTRAPOLATION and not extrapolate:
        raise ConfigError(
            f"the target {target:.3g} lies {beyond:.3g} times beyond the sizes, which have {baseline.compute[0]:.3g} "
            f"to {baseline.compute[-1]:.3g} operations, and laws are read up to {LARGEST_EXTRAPOLATION:g} times "
            "beyond; --extrapolate reads on"
        )
    lowest = min(min(one.losses.values()) for arm in ladder.arms for one in ladder.of(arm))
    if asymptote is not None and not 0 <= asymptote < lowest:
        raise ConfigError(f"an asymptote of {asymptote:g} does not lie between 0 and the lowest loss, {lowest:.4g}")
    furthest = max(LARGEST_EXTRAPOLATION, beyond)
    ratios = [one.tokens / one.parameters for one in ladder.of(ladder.baseline)]
    proportionate = max(ratios) < LEAST_RANGE * min(ratios)
    arms = tuple(_scaled_arm(ladder, name, target, asymptote, furthest, proportionate) for name in ladder.arms)
    notes = (*_notes(ladder, arms, target, beyond, asymptote, proportionate), *ladder.caveats)
    return Scaling(ladder, target, arms, notes)


def _scaled_arm(
    ladder: Ladder, name: str, target: float, asymptote: float | None, furthest: float, proportionate: bool
) -> ScaledArm:
    own, pairs, is_baseline = ladder.of(name), ladder.shared(name), name == ladder.baseline
    losses, law, both, loss = sized_losses(own), None, None, None
    if proportionate and len(own) >= (LEAST_SIZES if asymptote is None else 2):
        law = fit_compute_law(losses, target, asymptote)
        loss = law.loss() if law else None
    elif not proportionate and not size_token_losses(own).problem():
        both = fit_size_token_law(size_token_losses(own))
        # Along the ray of the largest size: parameters and tokens grow alike.
        step = math.sqrt(target / own[-1].compute)
        loss = both.loss(own[-1].parameters * step, own[-1].tokens * step)
    slope = factor = None
    if not is_baseline and len(pairs) > 1:
        arm, base = (sized_losses([pair[side] for pair in pairs]) for side in (0, 1))
        slope = effect_slope(arm.minus(base))
        factor = compute_factor(base, arm, target, furthest, asymptote) if proportionate else None
    return ScaledArm(name, ladder.labels[name], law, both, loss, slope, factor)


def _notes(
    ladder: Ladder,
    arms: tuple[ScaledArm, ...],
    target: float,
    beyond: float,
    asymptote: float | None,
    proportionate: bool,
) -> Iterator[str]:
    sizes = len(ladder.sizes)
    if not proportionate:
        problem = size_token_losses(ladder.of(ladder.baseline)).problem()
        yield (
            "tokens for each parameter differ between the sizes, so that compute alone has no law and no times the "
            f"compute{f'; {problem}' if problem else ''}"
        )
    elif sizes < LEAST_SIZES and asymptote is None:
        yield (
            f"a law of 3 parameters needs {LEAST_SIZES} sizes, not {sizes}; times the compute has an asymptote of 0 "
            "and 30 % of error of the slope"
        )
    elif sizes == LEAST_SIZES and asymptote is None:
        yield "with 3 sizes the law passes through the means, so that nothing tests its form"
    if beyond > 1 + SAME_SIZE:
        far = f", more than the {LARGEST_EXTRAPOLATION:g} times that is read without --extrapolate"
        yield (
            f"extrapolated: the target lies {number(beyond, 2)} times beyond the sizes"
            f"{far if beyond > LARGEST_EXTRAPOLATION else ''}"
        )
    elif sized_losses(ladder.of(ladder.baseline)).place(target) is None:
        yield "no size has the target's compute: differences there are those of the line"
    for arm in arms:
        if arm.law is not None and (p := arm.law.misfit_p()) < DOUBTFUL:
            yield f"{arm.label}: the losses do not follow the law (p = {p:.2g})"
        if arm.slope is not None and arm.slope.bend_p < DOUBTFUL:
            yield f"{arm.label}: the differences do not lie on a line (p = {arm.slope.bend_p:.2g})"
        if proportionate and arm.law is None and len(ladder.of(arm.name)) >= LEAST_SIZES:
            yield f"{arm.label}: its losses do not fall with compute, so that it has no law"
    if proportionate and any(arm.slope is not None and arm.factor is None for arm in arms):
        yield f"the losses of {arms[0].label} do not fall with compute, so that nothing is worth a multiple of it"
    if any(len(one.losses) < 2 for arm in ladder.arms for one in ladder.of(arm)):
        yield "a size with one seed tells no noise: estimates that need it have no interval"


def fitted_curve(arm: ScaledArm, computes: np.ndarray) -> list[Estimate]:
    """Returns the loss of an arm's law at several computes; empty without a law of compute."""
    return [arm.law.loss_at(compute) for compute in map(float, computes)] if arm.law else []
