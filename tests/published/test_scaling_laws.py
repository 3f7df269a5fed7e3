"""Laws and "times the compute" that others have published, from their own numbers.

All are of marin's mixture-of-experts models (github.com/marin-community/marin): losses are Paloma
macro losses of single runs, compute is in floating-point operations.
"""

import math

import numpy as np
import pytest

from zoo.lab.statistics.compute_factor import compute_factor
from zoo.lab.statistics.compute_law import fit_compute_law
from zoo.lab.statistics.power_law import PowerLaw
from zoo.lab.statistics.sized_losses import SizedLosses

# experiments/grug/moe/README.md, "v16 isoflop sweep: best runs per compute budget".
OPTIMA = {1e18: 3.5273, 3e18: 3.3398, 1e19: 3.1494, 3e19: 3.0066, 1e20: 2.8509, 3e20: 2.7222}
# Issue 5619, comment of 2026-05-13: MuonH without warm-up.
MUONH = {2.19e17: 3.7404, 1.70e18: 3.3834, 9.00e18: 3.1230}
# Issue 9290, comment of 2026-09-20: {feature: (loss, times the compute) at d512 and at d768}.
ADDED = {
    "attention residuals": ((3.1470, 1.06), (2.8508, 1.17)),
    "cross-layer KV": ((3.1444, 1.07), (2.8628, 1.07)),
    "tied embeddings": ((3.1524, 1.02), (2.8623, 1.07)),
    "hyper-connections": ((3.1485, 1.05), (2.8675, 1.04)),
    "softcap of logits": ((3.1520, 1.02), (2.8723, 1.00)),
    "residual gain": ((3.1539, 1.01), (2.8739, 0.99)),
    "over-encoding": ((3.1639, 0.95), (2.8665, 1.04)),
}
ADDED_BASELINE, ADDED_COMPUTE = (3.1559, 2.8723), (3.5e17, 2.3e18)


def losses(table):
    return SizedLosses(np.array(sorted(table)), tuple({0: table[each]} for each in sorted(table)))


def test_the_law_of_the_optima():
    found = fit_compute_law(losses(OPTIMA), 1e21, asymptote=1.6)
    assert found.law.exponent == pytest.approx(0.0941, abs=0.0005)
    coefficient = found.law.reducible * 1e21**found.law.exponent
    assert coefficient == pytest.approx(95.18, rel=0.02)
    # The projections of the same table; the run of 1e21 operations ended at 2.599.
    assert found.loss().value == pytest.approx(2.606, abs=0.002)
    assert found.loss_at(1e23).value == pytest.approx(2.252, abs=0.003)
    free = fit_compute_law(losses(OPTIMA), 1e21)
    assert free.loss().value == pytest.approx(2.599, abs=0.02)


def test_the_law_of_three_sizes_with_and_without_its_asymptote():
    free = fit_compute_law(losses(MUONH), 2.83e19)
    assert (free.law.asymptote, free.law.exponent) == pytest.approx((0.578, 0.0584), abs=0.003)
    assert free.loss().value == pytest.approx(2.958, abs=0.001)
    pinned = fit_compute_law(losses(MUONH), 2.83e19, asymptote=1.6)
    assert pinned.law.exponent == pytest.approx(0.0912, abs=0.0005)
    assert pinned.law.reducible * 2.83e19**pinned.law.exponent == pytest.approx(81.68, rel=0.02)
    assert pinned.loss().value == pytest.approx(2.975, abs=0.001)


@pytest.mark.parametrize("size", [0, 1], ids=["d512", "d768"])
def test_times_the_compute_of_added_features(size):
    # "Sc" is of the law that issue 9288 states: L = 1.2 + A C^-0.0842.
    law = PowerLaw(1.2, ADDED_BASELINE[size] - 1.2, 0.0842)
    for name, at in ADDED.items():
        loss, published = at[size]
        assert law.ratio(loss - ADDED_BASELINE[size]) == pytest.approx(published, abs=0.006), name


def test_times_the_compute_of_full_heads():
    # Issue 8227, comment of 2026-08-17: multi-head attention in place of grouped queries, d768.
    assert PowerLaw(1.6, 3.0208 - 1.6, 0.0941).ratio(2.9985 - 3.0208) == pytest.approx(1.18, abs=0.005)


def test_the_two_sizes_of_the_table_give_almost_the_published_factors():
    # Without the published exponent: that of the two baselines, with the published asymptote.
    base = losses(dict(zip(ADDED_COMPUTE, ADDED_BASELINE, strict=True)))
    assert fit_compute_law(base, 1e18, asymptote=1.2).law.exponent == pytest.approx(0.0842, abs=0.002)
    for name, at in ADDED.items():
        arm = losses(dict(zip(ADDED_COMPUTE, (loss for loss, _ in at), strict=True)))
        for (_, published), compute in zip(at, ADDED_COMPUTE, strict=True):
            found = compute_factor(base, arm, compute, 16.0, asymptote=1.2).factor
            assert found.value == pytest.approx(published, abs=0.01), name
            assert math.isnan(found.low)
