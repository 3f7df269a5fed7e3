"""Hyper-connections and mHC around one sublayer against the package hyper-connections, outputs and
gradients.

Early versions of such packages returned the streams as they were, not mixed. At initial values
nobody can tell, because all streams are equal; the matrices and the streams here are random.
"""

from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("hyper_connections")

import torch
from hyper_connections.hyper_connections import HyperConnections
from hyper_connections.manifold_constrained_hyper_connections import ManifoldConstrainedHyperConnections

from tests.parity.harness import relative_difference
from tests.parity.layers import largest
from tests.support.building import call, counting, tiny, with_values
from tests.support.comparisons import note
from zoo.config.kinds import PLACEMENT_KINDS
from zoo.layers.residual_streams import EPSILON

pytestmark = pytest.mark.parity
B, T, D, N = 2, 5, 16, 4
INDEX = 1
PLACEMENTS = PLACEMENT_KINDS.having("streams")


class Linear(torch.nn.Module):
    """f(Norm(h)), the same sublayer on both sides: RMSNorm without an epsilon, and a matrix."""

    def __init__(self, kernel):
        super().__init__()
        self.kernel = kernel

    def forward(self, h):
        return (h * h.square().mean(-1, keepdim=True).rsqrt()) @ self.kernel


def settings(placement):
    """Returns zoo's config of the model with this placement."""
    return tiny({"model.dim": D, "model.norm.placement": placement, "model.norm.streams": N}).model


def streams(generator, placement):
    """Returns random streams. For mHC they have equal lengths: the package norms each by itself, the
    paper all of a token together.
    """
    x = generator.standard_normal((B, T, N, D))
    if placement == "mhc":
        x /= np.sqrt(np.square(x).mean(-1, keepdims=True))
    return x.astype(np.float32)


def theirs(placement, generator):
    """Returns the package's module with random values."""
    kind = ManifoldConstrainedHyperConnections if placement == "mhc" else HyperConnections
    module = kind(N, dim=D, layer_index=INDEX)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.startswith("norm") or (placement == "hyper_static" and "dynamic_alpha_fn" in name):
                continue
            parameter.copy_(torch.tensor(0.5 * generator.standard_normal(parameter.shape), dtype=torch.float32))
        if placement == "hyper_static":
            for name in ("dynamic_alpha_fn", "dynamic_beta_fn"):
                getattr(module, name).zero_()
    return module


def from_theirs(placement, module, tensor):
    """Returns zoo's values, or gradients, of the connections.

    Args:
        placement: of `PLACEMENTS`.
        module: the package's.
        tensor: parameter -> its values or its gradient.
    """
    static, dynamic = tensor(module.static_alpha), tensor(module.dynamic_alpha_fn)
    read, mix, write = static[:, 0], static[:, 1:], tensor(module.static_beta)
    if placement == "mhc":
        # Row m of zoo's matrix leads to stream m, column t of theirs to stream t.
        values = {"read": read, "mix": mix.T.ravel(), "write": write}
        scales = module.pre_branch_scale, module.h_post_scale, module.residual_scale
        return values | {"scale": np.array([tensor(scale).item() for scale in scales])}
    values = {"read": np.roll(read, -INDEX), "mix": mix.ravel(), "write": write}
    if placement == "hyper":
        columns = np.concatenate([dynamic, tensor(module.dynamic_beta_fn)[:, None]], axis=1)
        scales = np.array([tensor(module.dynamic_alpha_scale).item(), tensor(module.dynamic_beta_scale).item()])
        values |= {"projection": columns, "scale": scales}
    return values


def block_diagonal(module):
    """Returns zoo's projection of mHC, [N D, N (N + 2)], of which each stream of the package reads its
    own part.
    """
    alpha, beta = (parameter.detach().numpy() for parameter in (module.dynamic_alpha_fn[0], module.dynamic_beta_fn))
    kernel = np.zeros((N, D, N * (N + 2)), np.float32)
    for s in range(N):
        kernel[s, :, s], kernel[s, :, N + s] = alpha[:, 0], beta
        kernel[s][:, [2 * N + t * N + s for t in range(N)]] = alpha[:, 1:]
    return kernel.reshape(N * D, -1)


def differences(placement):
    """Returns the largest differences of the streams after a sublayer, and of the gradients of the
    learned values (of the static kinds also those of the streams before it).
    """
    generator = np.random.default_rng(3)
    module, x = theirs(placement, generator), streams(generator, placement)
    kernel, weights = (generator.standard_normal(shape).astype(np.float32) for shape in ((D, D), x.shape))
    given = torch.tensor(x, requires_grad=True)
    flat = given.permute(0, 2, 1, 3).reshape(B * N, T, D)
    entering, add = module(flat)
    expected = add(Linear(torch.tensor(kernel))(entering)).reshape(B, N, T, D).permute(0, 2, 1, 3)
    (expected * torch.tensor(weights)).sum().backward()

    config = settings(placement)
    block_type = PLACEMENT_KINDS.code_of(placement)
    connections = block_type.connections(config)
    values = from_theirs(placement, module, lambda parameter: parameter.detach().numpy())
    if placement == "mhc":
        values["projection"] = block_diagonal(module)
    values = jax.tree.map(jnp.float32, values)

    class Around(block_type):
        """The connections around the sublayer alone."""

        def __init__(self):
            self.parts, self.branch, self.rate = ("attention",), 1.0, 0.0
            self.attention_streams = connections

    def functional(values, x):
        def f(h):
            return (h * jax.lax.rsqrt(jnp.square(h).mean(-1, keepdims=True))) @ kernel

        block = with_values(Around(), {"attention_streams": values})
        out = block.sublayer(x, f, lambda h, _: h, None, counting(T, layer_index=INDEX), "attention")
        return (out * weights).sum(), out

    (_, found), (gradients, d_x) = call(jax.value_and_grad(functional, (0, 1), has_aux=True), values, jnp.asarray(x))
    wanted = from_theirs(
        placement,
        module,
        lambda parameter: np.zeros(parameter.shape) if parameter.grad is None else parameter.grad.numpy(),
    )
    errors = [relative_difference(gradients[name], wanted[name]) for name in wanted]
    if placement != "mhc":
        errors.append(relative_difference(d_x, given.grad.numpy()))
    return relative_difference(found, expected.detach().numpy()), max(errors)


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest(map(differences, PLACEMENTS)), f"hyper-connections {version('hyper-connections')}"


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_connections_match_the_package(placement):
    assert EPSILON == 1e-6, "the package has none"
    library = f"{'ManifoldConstrained' * (placement == 'mhc')}HyperConnections of hyper-connections"
    note(max(differences(placement)), 1e-5, settings(placement), against=library, parts=("model.norm",))


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_streams_that_are_not_mixed_would_differ(placement, monkeypatch):
    """The fault of early versions, put back into the package: it returns the streams as they came."""
    kind = ManifoldConstrainedHyperConnections if placement == "mhc" else HyperConnections
    mixed = kind.width_connection

    def unmixed(self, residuals):
        entering, _, rest = mixed(self, residuals)
        return entering, residuals, rest

    monkeypatch.setattr(kind, "width_connection", unmixed)
    assert differences(placement)[0] > 0.05
