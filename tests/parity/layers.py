"""Compares a single layer with one of another library, outside of any model."""

from collections.abc import Callable, Iterable

import jax
import numpy as np
import torch
from flax import nnx

from tests.parity.harness import gradient_differences, relative_difference
from tests.support.building import call
from zoo.interop.weights.mapping import Rules, to_zoo
from zoo.layers.context import Context
from zoo.models.functional import split
from zoo.nested import flatten

Differences = tuple[float, float]


def layer_differences(
    ours: nnx.Module, context: Context, theirs: torch.nn.Module, run: Callable[[torch.Tensor], torch.Tensor], rules: Rules,
    shape: tuple[int, ...],
) -> Differences:  # fmt: skip
    """Returns the differences of the output, and of the gradients of the input and all parameters,
    for a random input and a random functional.

    Args:
        ours: the abstract layer.
        context: the context that it is called with.
        theirs: the layer of the other library, with its weights.
        run: calls that layer.
        rules: maps zoo's parameters to its tensors.
        shape: shape of the input.
    """
    generator = np.random.default_rng(5)
    x, weights = (generator.standard_normal(shape).astype(np.float32) for _ in range(2))
    graph, abstract, _ = split(ours)
    values = to_zoo(rules, {name: tensor.detach().numpy() for name, tensor in theirs.state_dict().items()}, abstract)

    def functional(values, x):
        out = nnx.merge(graph, values, {})(x, context)
        return (out * weights).sum(), out

    (_, out), (gradients, d_x) = call(jax.value_and_grad(functional, (0, 1), has_aux=True), values, x)
    their_x = torch.tensor(x, requires_grad=True)
    their_out = run(their_x)
    (their_out * torch.tensor(weights)).sum().backward()
    expected = flatten(
        to_zoo(rules, {name: parameter.grad.numpy() for name, parameter in theirs.named_parameters()}, abstract), "/"
    )
    gradient_errors = gradient_differences(flatten(gradients, "/") | {"x": d_x}, expected | {"x": their_x.grad.numpy()})
    return relative_difference(out, their_out.detach().numpy()), max(gradient_errors.values())


def largest(cases: Iterable[Differences]) -> Differences:
    """Returns the largest difference of the outputs, and that of the gradients."""
    outputs, gradients = zip(*cases, strict=True)
    return max(outputs), max(gradients)
