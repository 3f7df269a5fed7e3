"""The mixture of layers against Peters et al. 2018, eq. 1."""

import numpy as np
import pytest

from tests.building import as_float64, call, close, random_values, with_values
from zoo.layers.scalar_mix import ScalarMix
from zoo.models.functional import initialise

LAYERS = 2 + 3 * np.random.default_rng(1).standard_normal((3, 2, 4, 6)).astype(np.float32)
FILLED = np.array([[True, True, True, False], [True, False, False, False]])


@pytest.mark.parametrize("normalise", [False, True])
def test_a_mixture_is_its_equation(normalise):
    module = ScalarMix(3, normalise)
    values = random_values(module)
    params, layers = as_float64(values), LAYERS.astype(np.float64)
    if normalise:
        for index, layer in enumerate(layers):
            tokens = [layer[row, t] for row in range(2) for t in range(4) if FILLED[row, t]]
            mean, variance = np.mean(tokens), np.mean((tokens - np.mean(tokens)) ** 2)
            layers[index] = np.where(FILLED[..., None], (layer - mean) / np.sqrt(variance), 0)
    shares = np.exp(params["weights"]) / np.exp(params["weights"]).sum()
    expected = params["gamma"] * sum(share * layer for share, layer in zip(shares, layers, strict=True))
    close(call(with_values(module, values), LAYERS, FILLED), expected)


def test_a_new_mixture_is_the_mean():
    module = ScalarMix(3)
    close(call(with_values(module, initialise(module, 0)), LAYERS), LAYERS.mean(axis=0), 1e-6)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="3 layers for a mixture of 2"):
        with_values(ScalarMix(2), random_values(ScalarMix(2)))(LAYERS)
    with pytest.raises(ValueError, match="filled"):
        with_values(ScalarMix(3, True), random_values(ScalarMix(3)))(LAYERS)
