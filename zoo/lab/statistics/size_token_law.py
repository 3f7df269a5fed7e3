"""The loss of an arm as a law of its parameters and its training tokens.

    L(N, D) = E + A N^-alpha + B D^-beta

fitted as by Hoffmann et al. 2022 (arXiv:2203.15556), section 3.3 and appendix D.3: with e, a, b the
logarithms of E, A, B, the sum over runs of

    Huber_delta(log L - LSE(e, a - alpha log N, b - beta log D)),    LSE(z) = log sum_i exp z_i,

is minimised from the best starts of a grid of exponents; the lowest minimum counts. Hoffmann et al.
use L-BFGS; a trust region has the same minimum after fewer steps. N and D are divided by their
geometric means, which changes A and B alone. delta is 0.001 as published where every run has a size of
its own. Seeds tell the standard deviation s of log L; then delta is 1.345 s or more, at which the fit
is 95 % as efficient as least squares under normal noise (Huber 1964). At 0.001 it would be close to a
fit of medians, which needs half as many runs again.

**Intervals** are those of the delta method: with J the derivatives of the fitted log L by the
parameters, at P points with n_k runs each, and g those of log L at a target, log L is a weighted sum
of the means of the points, c = W J (J'W J)^-1 g with W = diag(n), whose variance by Welch
(`zoo.lab.statistics.sized_losses`) is divided by 0.95. Hoffmann et al. resample runs; Besiroglu et
al. 2024 (arXiv:2404.10102) show that their published intervals are far too narrow.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from zoo.lab.statistics.paired import ALPHA
from zoo.lab.statistics.sized_losses import Estimate, quantile, welch

PUBLISHED_DELTA = 1e-3
_OF_NOISE, _EFFICIENCY = 1.345, 0.95
LEAST_POINTS, LEAST_SIZES = 6, 3
# With tokens for each parameter that vary by less, the terms of N and D are not told apart.
LEAST_RANGE = 2.0
_EXPONENTS, _STARTS, _SMALLEST = tuple(np.geomspace(0.05, 1.5, 9)), 4, 1e-3
NAMES = ("E", "A", "B", "alpha", "beta")


@dataclass(frozen=True)
class SizeTokenLosses:
    """Losses of one arm.

    Attributes:
        parameters, tokens: N and D of each point, [P].
        losses: {seed: loss} at each point.
    """

    parameters: np.ndarray
    tokens: np.ndarray
    losses: tuple[Mapping[int, float], ...]

    def problem(self) -> str:
        """Returns why no law of N and D is fitted, empty if one is."""
        ratios = self.tokens / self.parameters
        points = len(ratios)
        if points < LEAST_POINTS:
            return f"a law of 5 parameters needs {LEAST_POINTS} pairs of parameters and tokens, not {points}"
        for values, name in ((self.parameters, "parameters"), (self.tokens, "tokens")):
            if len(np.unique(np.round(np.log(values), 2))) < LEAST_SIZES:
                return f"a law of parameters and tokens needs {LEAST_SIZES} numbers of {name}"
        if ratios.max() < LEAST_RANGE * ratios.min():
            return (
                "tokens for each parameter vary by less than a factor of "
                f"{LEAST_RANGE:g}, so that the terms of parameters and tokens are not told apart"
            )
        return ""


@dataclass(frozen=True)
class SizeTokenLaw:
    """A fitted law.

    Attributes:
        data: what was fitted.
        theta: (e, a, b, alpha, beta), a and b for N and D divided by their geometric means.
        delta: of the Huber loss.
    """

    data: SizeTokenLosses
    theta: np.ndarray
    delta: float

    @property
    def values(self) -> dict[str, float]:
        """Returns {name: value} of E, A, B, alpha and beta, for N and D as they are."""
        e, a, b, alpha, beta = map(float, self.theta)
        n, d = _centre(self.data.parameters), _centre(self.data.tokens)
        found = math.exp(e), math.exp(a + alpha * n), math.exp(b + beta * d), alpha, beta
        return dict(zip(NAMES, found, strict=True))

    def loss(self, parameters: float, tokens: float, alpha: float = ALPHA) -> Estimate:
        """Returns the loss of a run with these parameters and tokens."""
        x = np.array([math.log(parameters) - _centre(self.data.parameters)])
        y = np.array([math.log(tokens) - _centre(self.data.tokens)])
        value, gradient = _log_loss(self.theta, x, y)
        found = self._interval(float(value[0]), gradient[0], alpha)
        return Estimate(*(math.exp(each) for each in (found.value, found.low, found.high)))

    def exponents(self, alpha: float = ALPHA) -> tuple[Estimate, Estimate]:
        """Returns alpha, the exponent of N, and beta, that of D."""
        of_n, of_d = (self._interval(float(self.theta[i]), np.eye(5)[i], alpha) for i in (3, 4))
        return of_n, of_d

    def _interval(self, value: float, gradient: np.ndarray, alpha: float) -> Estimate:
        _, jacobian = _log_loss(self.theta, *_centred(self.data))
        counts = np.array([len(found) for found in self.data.losses], float)
        root = np.sqrt(counts)[:, None]
        weights = root[:, 0] * (np.linalg.pinv(root * jacobian).T @ gradient)
        logs = [w * np.log(list(found.values())) for w, found in zip(weights, self.data.losses, strict=True)]
        variance, df = welch(logs)
        if math.isnan(variance):
            return Estimate(value)
        half = quantile(df, alpha) * math.sqrt(variance / _EFFICIENCY)
        return Estimate(value, value - half, value + half)


def fit_size_token_law(data: SizeTokenLosses, delta: float | None = None) -> SizeTokenLaw:
    """Fits the law.

    Args:
        data: of one arm.
        delta: of the Huber loss; None for 1.345 standard deviations of seeds, and 0.001 at least.

    Raises:
        ValueError: too few sizes, or tokens in proportion to parameters.
    """
    if problem := data.problem():
        raise ValueError(problem)
    x, y = _centred(data)
    counts = [len(found) for found in data.losses]
    logs = [np.log(list(found.values())) for found in data.losses]
    if delta is None:
        df = sum(counts) - len(counts)
        pooled = sum(float(((each - each.mean()) ** 2).sum()) for each in logs)
        delta = max(PUBLISHED_DELTA, _OF_NOISE * math.sqrt(pooled / df)) if df else PUBLISHED_DELTA
    x, y, observed = np.repeat(x, counts), np.repeat(y, counts), np.concatenate(logs)

    lowest = np.array([-np.inf, -np.inf, -np.inf, 0.0, 0.0])
    fits = [
        optimize.least_squares(
            lambda theta: _log_loss(theta, x, y)[0] - observed,
            start,
            lambda theta: _log_loss(theta, x, y)[1],
            bounds=(lowest, np.array([np.inf, np.inf, np.inf, 3.0, 3.0])),
            x_scale="jac",
            loss="huber",
            f_scale=delta,
            ftol=1e-12,
            xtol=1e-12,
            gtol=1e-12,
            max_nfev=300,
        )
        for start in _starts(x, y, np.exp(observed))
    ]
    return SizeTokenLaw(data, min(fits, key=lambda found: found.cost).x, delta)


def _starts(x: np.ndarray, y: np.ndarray, losses: np.ndarray) -> list[np.ndarray]:
    """Returns the best of a grid of exponents; for each, E, A and B are fitted by least squares of the
    losses, which are linear in them.
    """
    found = []
    for alpha, beta in itertools.product(_EXPONENTS, _EXPONENTS):
        terms = np.column_stack([np.ones_like(x), np.exp(-alpha * x), np.exp(-beta * y)])
        linear, error = optimize.nnls(terms, losses)
        found.append((error, np.array([*np.log(np.maximum(linear, _SMALLEST * losses.min())), alpha, beta])))
    return [theta for _, theta in sorted(found, key=lambda each: each[0])[:_STARTS]]


def _log_loss(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns log L [P] and its derivatives by (e, a, b, alpha, beta) [P, 5]."""
    e, a, b, alpha, beta = theta
    terms = np.stack([np.full_like(x, e), a - alpha * x, b - beta * y])
    value = special.logsumexp(terms, axis=0)
    shares = np.exp(terms - value)
    return value, np.column_stack([*shares, -shares[1] * x, -shares[2] * y])


def _centre(values: np.ndarray) -> float:
    return float(np.log(values).mean())


def _centred(data: SizeTokenLosses) -> tuple[np.ndarray, np.ndarray]:
    return np.log(data.parameters) - _centre(data.parameters), np.log(data.tokens) - _centre(data.tokens)
