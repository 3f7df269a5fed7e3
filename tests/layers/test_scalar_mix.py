"""The mixture of layers against Peters et al. 2018, eq. 1."""

import numpy as np
import pytest

from tests.support.building import as_float64, call, close, random_values, with_values
from tests.support.comparisons import compared
from zoo.layers.scalar_mix import ScalarMix, normalise_layers
from zoo.models.functional import initialise

LAYERS = 2 + 3 * np.random.default_rng(1).standard_normal((2, 4, 3, 6)).astype(np.float32)


@pytest.mark.parametrize("leading", [(2, 4), (8,)])
def test_mixture_matches_its_equation(leading):
    module = ScalarMix(3)
    values = random_values(module)
    params, layers = as_float64(values), LAYERS.astype(np.float64).reshape(*leading, 3, 6)
    shares = np.exp(params["weights"]) / np.exp(params["weights"]).sum()
    expected = params["gamma"] * sum(share * layers[..., index, :] for index, share in enumerate(shares))
    compared(call(with_values(module, values), LAYERS.reshape(*leading, 3, 6)), expected, variants=("scalar-mix",))


def test_initial_mixture_is_the_mean():
    module = ScalarMix(3)
    close(call(with_values(module, initialise(module, 0)), LAYERS), LAYERS.mean(axis=-2), 1e-6)


def test_each_vector_is_normalised_separately():
    expected = [[[(v - v.mean()) / v.std() for v in token] for token in row] for row in LAYERS.astype(np.float64)]
    close(call(normalise_layers, LAYERS), expected)
    # An empty slot, which is zero, stays zero.
    assert not np.asarray(call(normalise_layers, np.zeros((2, 3), np.float32))).any()


def test_mismatched_layers_are_refused():
    with pytest.raises(ValueError, match="3 layers for a mixture of 2"):
        with_values(ScalarMix(2), random_values(ScalarMix(2)))(LAYERS)
