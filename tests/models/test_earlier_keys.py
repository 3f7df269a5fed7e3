"""Layers that read the keys and values of earlier ones: gradients against the numpy reference,
scans, recomputation, caches and numbers of parameters.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.decoding.making import generator, stepwise_and_full_scores
from tests.support.building import as_float64, call, close, counting, random_values, tiny, with_values
from tests.support.comparisons import compared
from tests.support.packed_rows import compare_packed_and_padded_rows
from tests.support.visibility import normal
from zoo.config.kinds import ATTENTION_KINDS
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.nested import flatten, unflatten

OWN, READER = "model.layers.kinds.own", "model.layers.kinds.reader"
TOKENS = np.array([[3, 1, 12, 0, 7, 7], [0, 5, 4, 4, 1, 9]])
PAIRS = {
    "model.layers.pattern": ("own", "reader"),
    f"{OWN}.residual": True,
    f"{READER}.attention.keys_from": "own",
    "model.position.kind": "rope",
    "model.attention.num_kv_heads": 2,
}
# As in Gemma 3n: the last layers read the last earlier ones of the same window.
LAST = {
    "model.layers.pattern": ("near", "far", "near", "near_reader", "far_reader"),
    "model.num_layers": 5,
    **{f"model.layers.kinds.{name}.attention.window": 3 for name in ("near", "near_reader")},
    "model.layers.kinds.far.residual": True,
    "model.layers.kinds.near_reader.attention.keys_from": "near",
    "model.layers.kinds.far_reader.attention.keys_from": "far",
}
STACKS = {
    "two periods and a rest": PAIRS | {"model.num_layers": 5},
    "three layers with the keys of one": PAIRS | {"model.layers.pattern": ("own", "reader", "reader"), "model.num_layers": 6},
    # Neighbours of one kind are scanned, and the last of those that are read leaves its keys.
    "neighbours": PAIRS | {"model.layers.pattern": ("own", "own", "own", "reader", "reader"), "model.num_layers": 5},
    # The first layer runs by itself, and another kind of layers stands at its place in a period.
    "first values": PAIRS | {
        "model.layers.pattern": ("first", "own", "reader"), "model.num_layers": 6,
        "model.layers.kinds.first.attention.kind": "value_residual"},
}  # fmt: skip


def program(fields):
    """Returns (function from parameters to loss and hidden states, the model)."""
    model = make_model(tiny(fields))

    def loss(values):
        out = with_values(model, values)(TOKENS, counting(6))
        return (out * normal(*out.shape)).sum(), out

    return loss, model


@functools.cache
def results(name, scan, remat):
    loss, model = program(STACKS[name] | {"model.scan_layers": scan, "model.remat": remat})
    return call(jax.value_and_grad(loss, has_aux=True), random_values(model, 1))


@pytest.mark.parametrize(
    ("name", "scan", "remat"),
    [
        ("neighbours", True, "full"),
        pytest.param("two periods and a rest", True, "full", marks=pytest.mark.promise(reason="another stack")),
        pytest.param("first values", True, "none", marks=pytest.mark.promise(reason="a first layer by itself")),
        pytest.param(
            "three layers with the keys of one", True, "dots", marks=pytest.mark.promise(reason="another stack")
        ),
        pytest.param("first values", False, "full", marks=pytest.mark.promise(reason="another way to run it")),
    ],
)
def test_scan_and_remat_change_nothing(name, scan, remat):
    one, other = results(name, scan, remat), results(name, False, "none")
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for leaf, wanted in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(leaf, wanted, rtol=0, atol=1e-5 * max(abs(wanted).max(), 1.0))


def test_gradients_match_differences_of_the_reference():
    loss, model = program(LAST | {"model.position.kind": "rope", "model.attention.qk_norm": "head"})
    config, values = model.config, random_values(model, 1)
    gradient = flatten(call(jax.grad(lambda values: loss(values)[0]), values), "/")
    wide, rows = flatten(as_float64(values), "/"), reference.counting(2, 6)

    def expected(changes):
        hidden = reference.model.hidden_states(config, unflatten(wide | changes, "/"), TOKENS, rows)
        return (hidden * np.asarray(normal(*hidden.shape), np.float64)).sum()

    generator, found, wanted = np.random.default_rng(0), {}, {}
    for path in gradient:
        if "attention/" not in path:
            continue
        way = generator.standard_normal(wide[path].shape)
        way *= 1e-4 / np.sqrt((way**2).sum())
        wanted[path] = (expected({path: wide[path] + way}) - expected({path: wide[path] - way})) / 2
        found[path] = (np.asarray(gradient[path], np.float64) * way).sum()
    assert any("near_reader" in path for path in found)
    assert any("far/attention/value" in path for path in found)
    compared(np.array([*found.values()]), np.array([*wanted.values()]), 1e-4, config=config)


KINDS = [kind for kind in ATTENTION_KINDS.by_name if kind in ATTENTION_KINDS.having("shared_keys")]
# Of two layers for each.
OPTIONS = {
    "softmax": {"attention.window": 3, "attention.num_kv_heads": 1, "position.kind": "rope", "attention.exclusive": True},
    "softmax_plus_one": {"attention.qk_norm": "unit", "position.kind": "rope", "attention.num_kv_heads": 2},
    "sigmoid": {"position.kind": "alibi", "attention.ssmax": 0.4, "attention.window": 4, "attention.dilations": (1, 2)},
    "forgetting": {"convolution.kind": "primer", "attention.gate": "elementwise"},
    "differential": {},
    "talking_heads": {},
}  # fmt: skip


def pairs_of_layers():
    """Returns the fields of a model with two layers of every kind that can share keys."""
    pattern, fields = [], {"model.position.kind": "none"}
    for number, kind in enumerate(KINDS):
        options = {"attention.kind": kind, **OPTIONS[kind]}
        own, reader = f"own{number}", f"reader{number}"
        pattern += [own, reader]
        for name in (own, reader):
            fields |= {f"model.layers.kinds.{name}.{path}": value for path, value in options.items()}
        fields[f"model.layers.kinds.{reader}.attention.keys_from"] = own
    return fields | {"model.layers.pattern": tuple(pattern), "model.num_layers": len(pattern)}


def test_decoding_step_by_step_gives_the_scores_of_one_pass():
    # The ring buffers of the windows wrap around.
    close(*stepwise_and_full_scores(pairs_of_layers(), steps=20), 3e-5)


@pytest.mark.promise(reason="a second search is compiled")
def test_beams_reorder_the_keys_that_layers_share():
    model = generator(PAIRS | {"model.num_layers": 4, "model.attention.num_kv_heads": 1, "model.tie_embeddings": False})
    found, again = (model.beam_search([[1, 2, 3]], 8, 3, 1.0, cache=cache) for cache in (True, False))
    np.testing.assert_array_equal(found.tokens, again.tokens)
    np.testing.assert_allclose(found.scores, again.scores, rtol=1e-5)


def test_packed_and_padded_rows_match_the_reference():
    compare_packed_and_padded_rows(LAST | {"model.position.kind": "alibi"}, TOKENS)


def test_a_population_is_a_vmap_of_its_members():
    loss, model = program(STACKS["two periods and a rest"] | {"model.scan_layers": True})
    members = [random_values(model, seed) for seed in (1, 2)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    one, other = call(
        lambda together, second: (jax.vmap(lambda values: loss(values)[0])(together)[1], loss(second)[0]),
        together,
        members[1],
    )
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_missing_projections_and_caches_are_not_counted():
    fields = {name: value for name, value in PAIRS.items() if "keys_from" not in name}
    shared, plain = (tiny(each | {"model.num_layers": 4}) for each in (PAIRS, fields | {f"{READER}.residual": True}))
    counts = [cost.summary(config).parameters["total"] for config in (plain, shared)]
    # Two layers lack W_k and W_v [16, 2 * 4] and their biases.
    assert counts[0] - counts[1] == 2 * 2 * (16 * 8 + 8)
    assert 2 * cost.cached_numbers(shared.model, 5) == cost.cached_numbers(plain.model, 5) == 4 * 5 * 2 * 8
    projections = 3 * 2 * 2 * 2 * 16 * 8
    assert cost.summary(plain).flops_per_token - cost.summary(shared).flops_per_token == projections
