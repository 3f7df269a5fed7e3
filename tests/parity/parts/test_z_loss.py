"""Cross-entropy with a z-loss against PyTorch's cross-entropy and the router z-loss of
transformers.
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
from tests.support.building import call, tiny
from tests.support.comparisons import note
from zoo.models.head import LogitFactors
from zoo.objectives.cross_entropy import cross_entropy

pytestmark = pytest.mark.parity
B, T, D, V = 2, 7, 16, 29
COEFFICIENT = 0.3
CHUNKS = (0, 5)


def differences(chunk):
    """Returns the differences of the loss, and of the gradients of hidden states, matrix and bias."""
    generator = np.random.default_rng(7)
    shapes = {"hidden": (B, T, D), "weights": (V, D), "bias": (V,)}
    arrays = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    targets, weights_of_targets = generator.integers(0, V, (B, T)), np.ones((B, T), np.float32)

    def loss(arrays):
        return cross_entropy(
            LogitFactors(arrays["hidden"], arrays["weights"], arrays["bias"], 0.0),
            targets,
            weights_of_targets,
            chunk,
            COEFFICIENT,
        )[0]

    value, gradients = call(jax.value_and_grad(loss), arrays)
    inputs = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
    logits = inputs["hidden"] @ inputs["weights"].T + inputs["bias"]
    entropy = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(targets).flatten(), reduction="sum")
    # The library's z-loss is a mean over all tokens.
    expected = entropy + COEFFICIENT * B * T * router_z_loss_func(logits)
    expected.backward()
    gradient_errors = gradient_differences(gradients, {name: tensor.grad.numpy() for name, tensor in inputs.items()})
    return relative_difference(value, expected.detach().numpy()), max(gradient_errors.values())


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest(map(differences, CHUNKS)), f"transformers {transformers.__version__}"


@pytest.mark.parametrize("chunk", CHUNKS)
def test_z_loss_matches_transformers(chunk):
    config = tiny({"objective.z_loss": COEFFICIENT})
    note(max(differences(chunk)), 1e-5, config, "objective.z_loss", "router_z_loss_func of transformers")
