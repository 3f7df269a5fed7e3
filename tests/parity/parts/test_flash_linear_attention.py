"""The recurrences of flash-linear-attention, one token after the other, against both forms of zoo's:
values, last states, and gradients of all inputs and of the state before the first token. And its
attention over depth against that of a block.

The package imports triton, so that its files of plain torch are loaded by their paths.
"""

import importlib.util
from functools import cache
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tests.parity.harness import relative_difference
from tests.parity.layers import largest
from tests.support.building import call, counting, tiny
from tests.support.comparisons import note
from zoo.config.kinds import PLACEMENT_KINDS
from zoo.layers.attention.linear_recurrence import Tokens, by_chunks, token_by_token

PACKAGE, FOUND = "fla-core", importlib.util.find_spec("fla")
pytestmark = [pytest.mark.parity, pytest.mark.skipif(FOUND is None, reason=f"{PACKAGE} is not installed")]
# 40 tokens are chunks of 32 and 8, the first one of two blocks.
B, H, T, K, V, CHUNK = 2, 3, 40, 5, 4, 32
FORMS = {"by_chunks": lambda *given: by_chunks(*given, CHUNK), "token_by_token": token_by_token}
DEPTH = {"model.norm.placement": "depth_attention", "model.num_layers": 3}


@cache
def naive(folder):
    """Returns a file of plain torch as a module."""
    path = Path(FOUND.submodule_search_locations[0]) / "ops" / folder / "naive.py"
    spec = importlib.util.spec_from_file_location(f"naive_{folder}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def swapped(*arrays):
    """Returns [B, T, H, ...] of [B, H, T, ...], or the other way around."""
    return [array.transpose(1, 2) for array in arrays]


def linear(q, k, v, decay, rate, state):
    out, last = naive("linear_attn").naive_recurrent_linear_attn(*swapped(q, k, v), None, state, True)
    return *swapped(out), last


def scalar_decay(q, k, v, decay, rate, state):
    given = swapped(q, k, v, decay[..., 0])
    out, last = naive("simple_gla").naive_recurrent_simple_gla(*given, initial_state=state)
    return *swapped(out), last


def decay_of_elements(q, k, v, decay, rate, state):
    out, last = naive("gla").naive_recurrent_gla(*swapped(q, k, v, decay), state, True)
    return *swapped(out), last


def delta(q, k, v, decay, rate, state):
    return naive("delta_rule").delta_rule_recurrence(q, k, v, rate, state)


def gated_delta(q, k, v, decay, rate, state):
    given = swapped(q, k, v, rate, decay[..., 0])
    out, last = naive("gated_delta_rule").naive_recurrent_gated_delta_rule(*given, None, state, True)
    return *swapped(out), last


def kimi_delta(q, k, v, decay, rate, state):
    out, last = naive("kda").naive_recurrent_kda(*swapped(q, k, v, decay, rate), None, state, True)
    return *swapped(out), last


# Kind of attention: (theirs, numbers of a decay, whether decays and rates are drawn, the delta rule).
KINDS = {
    "linear": (linear, 1, False, False, False),
    "mamba2": (scalar_decay, 1, True, False, False),
    "gated_linear": (decay_of_elements, K, True, False, False),
    "delta": (delta, 1, False, True, True),
    "gated_delta": (gated_delta, 1, True, True, True),
    "kimi_delta": (kimi_delta, K, True, True, True),
}


def drawn(elements, decays, rates):
    """Returns random q, k, v, decays, rates and a state; keys have length 1, and rates go up to 2."""
    generator = np.random.default_rng(7)

    def normal(*shape):
        return generator.standard_normal((B, H, *shape))

    q, k, v, state = normal(T, K), normal(T, K), normal(T, V), normal(K, V)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    decay = -np.exp(normal(T, elements)) if decays else np.zeros((B, H, T, elements))
    rate = 2 / (1 + np.exp(-normal(T))) if rates else np.ones((B, H, T))
    return [array.astype(np.float32) for array in (q, k, v, decay, rate, state)]


def ours(form, arrays, weights, delta):
    """Returns zoo's (values, last state) and the gradients of all arrays."""
    first = jnp.zeros((1, T), bool)

    def total(arrays):
        q, k, v, decay, rate, state = arrays
        results = FORMS[form](Tokens(q * K**-0.5, k, v, decay, rate, first), state, delta)
        return sum((weight * result).sum() for weight, result in zip(weights, results, strict=True)), results

    (_, results), gradients = call(jax.value_and_grad(total, has_aux=True), arrays)
    return results, gradients


def differences(kind, form):
    """Returns the largest difference of a kind's values and last states, and of its gradients."""
    theirs, elements, decays, rates, delta = KINDS[kind]
    arrays = drawn(elements, decays, rates)
    generator = np.random.default_rng(8)
    weights = [generator.standard_normal(shape).astype(np.float32) for shape in ((B, H, T, V), (B, H, K, V))]
    results, gradients = ours(form, arrays, weights, delta)
    given = [torch.tensor(array, requires_grad=True) for array in arrays]
    wanted = theirs(*given)
    sum((torch.tensor(weight) * result).sum() for weight, result in zip(weights, wanted, strict=True)).backward()
    # What a kind lacks has no gradient there, and is a constant here.
    known = [(mine, array.grad) for mine, array in zip(gradients, given, strict=True) if array.grad is not None]
    assert len(known) == 4 + decays + rates
    values = [
        relative_difference(*pair) for pair in zip(results, (one.detach().numpy() for one in wanted), strict=True)
    ]
    return max(values), max(relative_difference(mine, grad.numpy()) for mine, grad in known)


def depth_differences():
    """Returns the differences of what the fourth sublayer leaves to be read, and of the gradients."""
    config = tiny(DEPTH).model
    generator, number, D = np.random.default_rng(9), 3, config.dim
    earlier = generator.standard_normal((B, T, number + 1, D)).astype(np.float32)
    query, weights = (generator.standard_normal(shape).astype(np.float32) for shape in ((D,), (B, T, D)))
    kept = np.zeros((B, T, 2 * config.num_layers + 2, D), np.float32)
    kept[:, :, 1 : number + 2] = earlier
    kept[:, :, 0] = generator.standard_normal((B, T, D))

    class Around(PLACEMENT_KINDS.code_of("depth_attention")):
        """The read after the second layer's feed-forward alone."""

        def __init__(self):
            self.parts, self.branch, self.rate = ("attention", "feed_forward"), 1.0, 0.0
            self.feed_forward_query = jnp.zeros(D)

    def read(kept, query):
        bound = Around()
        bound.feed_forward_query = query
        out = bound.sublayer(kept, jnp.tanh, lambda h, _: h, None, counting(T, layer_index=1), "feed_forward")
        return (out[:, :, 0] * weights).sum(), out[:, :, 0]

    (_, found), (d_kept, d_query) = call(jax.value_and_grad(read, (0, 1), has_aux=True), kept, query)
    theirs = [torch.tensor(array, requires_grad=True) for array in (kept, query)]
    outputs = [*theirs[0][:, :, 1 : number + 2].unbind(2), torch.tanh(theirs[0][:, :, 0])]
    wanted = naive("attnres").naive_attnres(theirs[1], outputs, torch.ones(D))
    (wanted * torch.tensor(weights)).sum().backward()
    pairs = zip((d_kept, d_query), (array.grad.numpy() for array in theirs), strict=True)
    return relative_difference(found, wanted.detach().numpy()), max(relative_difference(*pair) for pair in pairs)


def measure():
    """Measures the line of `docs/parity.md`."""
    cases = [differences(kind, form) for kind in KINDS for form in FORMS]
    return *largest([*cases, depth_differences()]), f"{PACKAGE} {version(PACKAGE)}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrences_match_the_package(kind, form):
    assert max(differences(kind, form)) < 1e-5


def test_retention_decays_as_in_the_package():
    """Its file has the decays of the heads in it, and no state."""
    q, k, v, *_ = drawn(1, False, False)
    out = naive("retention").naive_retention(*map(torch.tensor, (q, k, v))).numpy()
    decays = np.broadcast_to(np.log(1 - 2.0 ** (-5 - np.arange(H)))[None, :, None, None], (B, H, T, 1))
    tokens = Tokens(q * K**-0.5, k, v, jnp.asarray(decays, jnp.float32), jnp.ones((B, H, T)), jnp.zeros((1, T), bool))
    found, _ = call(lambda state: by_chunks(tokens, state, False, CHUNK), jnp.zeros((B, H, K, V)))
    assert relative_difference(found, out) < 1e-5


def test_attention_over_depth_matches_the_package():
    config = tiny(DEPTH).model
    against = f"naive_attnres of {PACKAGE}"
    note(max(depth_differences()), 1e-5, config, against=against, parts=("model.norm",))


@pytest.mark.parametrize("kind", ["gated_delta", "kimi_delta"])
def test_a_decay_after_the_correction_would_differ(kind):
    """An easy mistake: the delta rule corrects what was stored before the decay of the token."""
    theirs, elements, decays, rates, _ = KINDS[kind]
    arrays = drawn(elements, decays, rates)
    late = arrays[3].copy()
    late[:, :, 1:] = arrays[3][:, :, :-1]
    late[:, :, 0] = 0
    out = theirs(*map(torch.tensor, (*arrays[:3], late, *arrays[4:])))[0].numpy()
    (found, _), _ = ours("token_by_token", arrays, [np.zeros((B, H, T, V)), np.zeros((B, H, K, V))], True)
    assert relative_difference(found, out) > 0.05
