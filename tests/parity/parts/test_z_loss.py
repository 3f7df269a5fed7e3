"""Cross-entropy with a z-loss against PyTorch's, and against the z-loss that transformers has for
the routers of its experts.
"""

import jax
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from transformers.models.switch_transformers.modeling_switch_transformers import router_z_loss_func

from tests.parity.harness import gradient_differences, relative_difference
from tests.parity.layers import largest
from tests.support.building import call
from zoo.models.head import LogitFactors
from zoo.objectives.cross_entropy import cross_entropy

pytestmark = pytest.mark.parity
B, T, D, V = 2, 7, 16, 29
COEFFICIENT = 0.3
CHUNKS = (0, 5)


def differences(chunk):
    """Of the loss; of the gradients of hidden states, matrix and bias."""
    generator = np.random.default_rng(7)
    shapes = {"hidden": (B, T, D), "weights": (V, D), "bias": (V,)}
    arrays = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    targets, scored = generator.integers(0, V, (B, T)), np.ones((B, T), np.float32)

    def loss(arrays):
        return cross_entropy(
            LogitFactors(arrays["hidden"], arrays["weights"], arrays["bias"], 0.0), targets, scored, chunk, COEFFICIENT
        )[0]

    value, gradients = call(jax.value_and_grad(loss), arrays)
    inputs = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
    logits = inputs["hidden"] @ inputs["weights"].T + inputs["bias"]
    entropy = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(targets).flatten(), reduction="sum")
    # The library has the mean over all tokens.
    expected = entropy + COEFFICIENT * B * T * router_z_loss_func(logits)
    expected.backward()
    moved = gradient_differences(gradients, {name: tensor.grad.numpy() for name, tensor in inputs.items()})
    return relative_difference(value, expected.detach().numpy()), max(moved.values())


def measure():
    """For the table of `docs/parity.md`."""
    return *largest(map(differences, CHUNKS)), f"transformers {transformers.__version__}"


@pytest.mark.parametrize("chunk", CHUNKS)
def test_cross_entropy_with_a_z_loss_is_the_sum_of_both(chunk):
    assert max(differences(chunk)) < 1e-5
