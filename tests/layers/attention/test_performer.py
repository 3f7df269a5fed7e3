"""FAVOR+ against its equations in float64; its memory and its random features."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import (
    ENCODER,
    ENCODER_DECODER,
    by_default,
    call,
    close,
    compiled,
    counting,
    quick_compilation,
    random_statistics,
    random_values,
    tiny,
    with_values,
)
from tests.support.comparisons import compared
from tests.support.visibility import WAYS, either_way
from zoo.layers.attention import favor, make_attention
from zoo.layers.attention.favor import EPSILON, performer_attention, random_features
from zoo.layers.attention.kernels.products import KERNELS
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.models.functional import initialise_statistics, refresh, split

B, H, K, M = 2, 4, 6, 11
# Lengths of one chunk, of several chunks of 5 tokens, and not a multiple of a chunk.
LENGTHS = (1, 10, 13)


@pytest.fixture(autouse=True)
def _short_chunks(monkeypatch):
    monkeypatch.setattr(favor, "CHUNK", 5)
    monkeypatch.setattr(favor, "CAUSAL_CHUNK", 5)


def heads(seed, length, kv_heads=H, keys=None, size=1.0):
    """Queries, keys and values."""
    generator = np.random.default_rng(seed)
    shapes = [(B, length, H, K)] + [(B, keys or length, kv_heads, K)] * 2
    return [(size * generator.standard_normal(shape)).astype(np.float32) for shape in shapes]


@functools.cache
def draw(number, width):
    """Returns the function from a seed, or many, to random features."""
    return compiled(jax.vmap(lambda seed: random_features(jax.random.key(seed), (number, width))))


def features(seed=0, number=M, width=K):
    return draw(number, width)(np.array([seed]))[0]


def estimated(q, k, v, w, scale, seen):
    """Choromanski et al. 2021, eq. 4 and Lemma 1, by the full matrix of token pairs; `seen` is the
    mask [B, T, S].
    """
    _B, _T, H, _K = q.shape
    G = k.shape[2]
    k, v = (x.repeat(H // G, axis=2) for x in (k, v))
    q, k = q * scale**0.5, k * scale**0.5

    def projected(x):
        return jnp.einsum("bthk,jk->bhtj", x, w), ((x**2).sum(-1) / 2).transpose(0, 2, 1)[..., None]

    of_q, half_q = projected(q)
    of_k, half_k = projected(k)
    phi_q = jnp.exp(of_q - half_q - jax.lax.stop_gradient(of_q.max(-1, keepdims=True))) + EPSILON
    # The maximum over the keys that query t sees, and the keys' features relative to it: [B, H, T,
    # S, M].
    seen = seen[:, None, :, :, None]
    largest = jax.lax.stop_gradient(jnp.where(seen, of_k[:, :, None], -jnp.inf).max((-2, -1), keepdims=True))
    phi_k = jnp.where(seen, jnp.exp(jnp.where(seen, (of_k - half_k)[:, :, None] - largest, 0)) + EPSILON, 0)
    weights = jnp.einsum("bhtj,bhtsj->bhts", phi_q, phi_k)
    return jnp.einsum("bhts,bshk->bthk", weights / weights.sum(-1, keepdims=True), v)


def values_and_gradients(attend, arguments, weights):
    """Returns the output of attend(q, k, v), and the gradients of its product with `weights`."""

    def functional(q, k, v):
        out = attend(q, k, v)
        return (out * weights).sum(), out

    (_, out), gradients = call(jax.value_and_grad(functional, (0, 1, 2), has_aux=True), *arguments)
    return out, *gradients


def expected(arguments, weights, w, scale, seen):
    """Returns the same of `estimated`, in float64."""
    with jax.enable_x64(True):
        wide = [np.asarray(x, np.float64) for x in arguments]
        return values_and_gradients(
            lambda q, k, v: estimated(q, k, v, np.asarray(w, np.float64), scale, seen), wide, np.float64(weights)
        )


def visible(positions, causal, keys=None):
    """[B, T, S]: the mask of filled keys, in a causal row up to the query."""
    keys = positions if keys is None else keys
    filled = np.broadcast_to((keys >= 0)[:, None], (B, positions.shape[1], keys.shape[1]))
    return filled & np.tri(*filled.shape[1:], dtype=bool) if causal else filled


def check(arguments, context, seen, scale=0.3, tolerance=1e-5, filled=None):
    """Compares outputs and gradients, ignoring the outputs at empty slots."""
    w, weights = features(), np.random.default_rng(7).standard_normal(arguments[0].shape).astype(np.float32)
    if filled is not None:
        weights *= filled[..., None, None]
    mine = values_and_gradients(lambda q, k, v: performer_attention(q, k, v, w, context, scale), arguments, weights)
    theirs = expected(arguments, weights, w, scale, seen)
    (out, *gradients), (exact, *exact_gradients) = mine, theirs
    compared(*((out, exact) if filled is None else (out[filled], exact[filled])), tolerance, variants=("performer",))
    # Relative to the largest gradient of all, because some gradients are 0 up to rounding, e.g. a
    # query's if there is one key.
    both = (np.concatenate([x.ravel() for x in each]) for each in (gradients, exact_gradients))
    compared(*both, tolerance, variants=("performer",))


PRODUCT = [*itertools.product((False, True), (4, 2, 1), LENGTHS)]


@pytest.mark.parametrize(
    ("causal", "kv_heads", "length"),
    by_default(
        [(False, 2, 13), (True, 1, 10)],
        PRODUCT,
        pytest.mark.promise(reason="other lengths and numbers of key heads"),
        [case for case in PRODUCT if case[1] != 2 and case[2] != 10],
        "every number of key heads is compared at one length, and every length with one number of key heads",
    ),
)
def test_outputs_and_gradients_match_the_equations(causal, kv_heads, length):
    positions = np.tile(np.arange(length), (B, 1))
    check(heads(1, length, kv_heads), counting(length, causal), visible(positions, causal))


@pytest.mark.parametrize("causal", [False, True])
def test_rows_with_empty_slots_match_the_equations(causal):
    positions = np.full((B, 13), -1)
    positions[0, 3:11], positions[1, :6] = np.arange(8), np.arange(6)
    # In the causal form, slots before the first token have no visible keys and are left out of the
    # reference's rows.
    seen = visible(positions, causal)
    seen = seen | (~seen.any(-1, keepdims=True) & np.eye(13, dtype=bool))
    check(heads(2, 13, 2), Context(jnp.asarray(positions), causal=causal), seen, filled=positions >= 0)


@pytest.mark.parametrize("causal", [False, True])
def test_padding_does_not_change_the_result(causal):
    # Even keys of empty slots with the largest exponents must not enter the stabiliser.
    q, k, v = heads(3, 8, 2)
    places = np.array([2, 3, 5, 6, 7, 9, 10, 12])
    positions, spread = np.full((B, 13), -1), [np.full((B, 13, x.shape[2], K), 30.0, np.float32) for x in (q, k, v)]
    positions[:, places] = np.arange(8)
    for x, into in zip((q, k, v), spread, strict=True):
        into[:, places] = x
    w = features()
    padded = call(lambda *x: performer_attention(*x, w, Context(jnp.asarray(positions), causal=causal), 0.3), *spread)
    close(padded[:, places], call(lambda *x: performer_attention(*x, w, counting(8, causal), 0.3), q, k, v), 1e-6)


def test_keys_of_another_sequence_match_the_equations():
    # More keys than queries; one row's memory has empty slots.
    keys = np.tile(np.arange(12), (B, 1))
    keys[1, 4:] = -1
    context = Context(jnp.arange(7)[None], causal=False, key_positions=jnp.asarray(keys))
    check(heads(4, 7, 2, 12), context, visible(np.tile(np.arange(7), (B, 1)), False, keys))
    with pytest.raises(ValueError, match="cannot show a prefix"):
        performer_attention(*heads(4, 7, 2), features(), Context(jnp.arange(7)[None], prefix=3), 0.3)
    with pytest.raises(ValueError, match="their own row"):
        performer_attention(
            *heads(4, 7, 2, 12), features(), Context(jnp.arange(7)[None], key_positions=jnp.asarray(keys)), 0.3
        )


@pytest.mark.parametrize("causal", [False, True])
def test_query_without_visible_keys_gives_0(causal):
    positions = np.array([[-1, -1, -1, -1, -1, -1, 0], [-1] * 7])
    w, context = features(), Context(jnp.asarray(positions), causal=causal)
    weights = np.ones((B, 7, H, K), np.float32)
    found = values_and_gradients(lambda *x: performer_attention(*x, w, context, 0.3), heads(5, 7), weights)
    assert all(np.isfinite(x).all() for x in found)
    assert not found[0][1].any()
    np.testing.assert_array_equal(found[0][0].any((1, 2)), [not causal] * 6 + [True])


@pytest.mark.parametrize("causal", [False, True])
def test_bfloat16_inputs_are_summed_in_float32(causal):
    length, w = 300, features()
    q, k, v = (jnp.asarray(x, jnp.bfloat16) for x in heads(6, length, 2))
    attend = compiled(lambda *x: performer_attention(*x, w, counting(length, causal), 0.3))
    out = attend(q, k, v)
    assert out.dtype == jnp.bfloat16
    # Only the final rounding to 8 bits may be lost, for any number of summed tokens.
    exact = attend(*(np.asarray(x, np.float32) for x in (q, k, v)))
    np.testing.assert_allclose(np.float32(out), exact, rtol=2**-8, atol=1e-6)


def test_large_exponents_do_not_overflow():
    # Keys grow along the row, so that the maximum grows by more than a float32's range, within
    # chunks and between them.
    q, k, v = heads(8, 13, 2)
    k *= 40 * np.arange(13, dtype=np.float32)[:, None, None]
    projected = np.einsum("bsgk,jk->bsgj", k, features()).max((0, 2, 3)) * 0.3**0.5
    assert projected[4] - projected[0] > 90
    assert projected[12] - projected[5] > 90
    positions = np.tile(np.arange(13), (B, 1))
    for keys, causal in ((k, True), (k[:, ::-1], True), (k, False)):
        check((q, keys, v), counting(13, causal), visible(positions, causal), tolerance=2e-5)


def test_later_tokens_do_not_change_earlier_outputs():
    (q, k, v), w = heads(9, 13), features()
    attend = compiled(lambda *x: performer_attention(*x, w, counting(13), 0.3))
    before = attend(q, k, v)
    for place in (4, 5, 12):
        for factor in (-1.0, 1e-3, 50.0):
            changed = [
                np.where(np.arange(13)[:, None, None] >= place, factor * x, x).astype(np.float32) for x in (q, k, v)
            ]
            after = attend(*changed)
            np.testing.assert_array_equal(after[:, :place], before[:, :place])
            assert (after[:, place:] != before[:, place:]).any()


@either_way
@pytest.mark.parametrize(("overrides", "scan"), [({}, True), (ENCODER, False)], ids=["decoder", "encoder"])
def test_tokens_of_a_performer_model_see_only_allowed_tokens(overrides, scan, way):
    config = tiny(
        {
            "model.attention.kind": "performer",
            "model.position.kind": "rope",
            "model.num_layers": 1,
            "model.scan_layers": scan,
            "model.vocab_size": 24,
            "model.attention.num_kv_heads": 2,
            "data.sequence_length": 12,
        }
        | overrides
    )
    model = make_model(config)
    values, stats, tokens = random_values(model, 1), random_statistics(model, 2), jnp.arange(24).reshape(2, 12)
    positions = np.tile(np.arange(12), (2, 1))
    positions[1, 9:] = -1
    context = Context(jnp.asarray(positions), causal=config.model.architecture == "decoder")

    own, others = np.split(np.asarray(values["embedding"]), [24])

    def outputs(own):
        embedding = jnp.concatenate([own.reshape(24, 16), others])
        return with_values(model, values | {"embedding": embedding}, stats)(tokens, context)

    found = WAYS[way](outputs, own.reshape(2, 12, 16))
    seen = np.tri(12, dtype=bool) if context.causal else np.ones((12, 12), bool)
    np.testing.assert_array_equal(found[0, :, 0], seen)
    np.testing.assert_array_equal(found[1, :9, 1], seen[:9] & (np.arange(12) < 9))
    assert not found[0, :, 1].any()
    assert not found[1, :9, 0].any()


def test_attention_uses_the_scale_of_the_config():
    for fields, scale in (({}, 0.5), ({"model.attention.scale": 0.8}, 0.8)):
        config = tiny({"model.attention.kind": "performer", "model.attention.num_kv_heads": 2} | fields).model
        layer, x = make_attention(config), np.random.default_rng(3).standard_normal((B, 8, 16)).astype(np.float32)
        values, stats = random_values(layer, 4), {"features": features(5, config.attention.features, 4)}
        q, k, v = (
            np.float64(x @ values[name]["kernel"] + values[name]["bias"]).reshape(B, 8, -1, 4)
            for name in ("query", "key", "value")
        )
        with jax.enable_x64(True):
            attended = np.asarray(
                estimated(q, k, v, np.float64(stats["features"]), scale, visible(np.tile(np.arange(8), (B, 1)), True))
            )
        out = attended.reshape(B, 8, 16) @ np.float64(values["output"]["kernel"]) + values["output"]["bias"]
        close(call(lambda x, a=(layer, values, stats): with_values(*a)(x, counting(8)), x), out)


def test_cross_attention_ignores_padding_of_the_memory():
    config = tiny({"model.attention.kind": "performer", "model.num_layers": 1} | ENCODER_DECODER)
    model = make_model(config)
    values, stats = random_values(model, 1), random_statistics(model, 2)
    assert {path: set(part["stack"]["layers"]) for path, part in stats.items()} == {
        "encoder": {"attention"},
        "decoder": {"attention", "cross_attention"},
    }
    source, targets = jnp.arange(10).reshape(2, 5), jnp.arange(8).reshape(2, 4)
    positions = jnp.array([[0, 1, 2, 3, 4], [0, 1, 2, -1, -1]])

    @compiled
    def run(source):
        return with_values(model, values, stats)(source, targets, Context(positions, causal=False), counting(4))

    before, empty, filled = (run(changed) for changed in (source, source.at[1, 4].set(1), source.at[1, 2].set(1)))
    np.testing.assert_array_equal(before, empty)
    assert (before[1] != filled[1]).all(axis=-1).all()


# Random features


def test_features_are_orthogonal_in_blocks():
    w = features(1, 2 * K + 3)
    gram = w @ w.T
    blocks = np.kron(np.eye(3), np.ones((K, K)))[: len(w), : len(w)]
    off = ~np.eye(len(w), dtype=bool)
    assert np.abs(gram[(blocks > 0) & off]).max() < 1e-5
    assert np.abs(gram[blocks == 0]).min() > 1e-3


def test_feature_rows_are_standard_normal():
    draws = draw(K + 2, K)(np.arange(20_000))
    # Each element of a standard normal vector has mean 0 and variance 1, and its squared length has
    # mean K and variance 2 K.
    np.testing.assert_allclose(draws.mean(0), 0, atol=5 * 20_000**-0.5)
    np.testing.assert_allclose(
        np.einsum("nmi,nmj->mij", draws, draws) / 20_000, np.broadcast_to(np.eye(K), (K + 2, K, K)), atol=0.07
    )
    lengths = (draws**2).sum(-1)
    np.testing.assert_allclose(lengths.mean(0), K, rtol=0.03)
    np.testing.assert_allclose(lengths.var(0), 2 * K, rtol=0.1)
    # Lengths are independent of the directions and of each other.
    assert np.abs(np.corrcoef(lengths.T)[~np.eye(K + 2, dtype=bool)]).max() < 0.04


def test_softmax_kernel_estimate_is_unbiased():
    draws = draw(K, K)(np.arange(20_000))
    for direction in range(K):
        # A biased direction would show most where both vectors point along it.
        x, y = np.full(K, 0.1), np.full(K, -0.1)
        x[direction], y[direction] = 0.7, 0.6
        estimates = np.exp(draws @ (x + y) - (x @ x + y @ y) / 2).mean(-1)
        error = estimates.std() / 20_000**0.5
        assert abs(estimates.mean() - np.exp(x @ y)) < 4.5 * error < 0.05


@pytest.mark.promise(reason="the variance of many random features is estimated")
@pytest.mark.parametrize("causal", [False, True])
def test_more_features_approximate_softmax_better(causal):
    length, width = 40, 8
    q, k, v = (
        np.random.default_rng(seed).standard_normal((1, length, 2, width)).astype(np.float32) for seed in range(3)
    )
    context, scale = counting(length, causal), 0.1
    exact = call(lambda *x: KERNELS["einsum"](*x, context, Scoring(scale=scale)), q, k, v)
    attend = jax.vmap(lambda w: performer_attention(q, k, v, w, context, scale))
    few, more, many = (float(np.square(call(attend, draw(number, width)(np.arange(20))) - exact).mean() / np.square(exact).mean())
                       for number in (8, 64, 512))  # fmt: skip
    # The variance of a mean is inverse to its number of terms; a ratio of two estimates is also
    # biased if there are few.
    assert more < few / 3
    assert many < more / 5
    assert many < 1e-2


# Statistics: drawn with the model, redrawn in training


REDRAWN = {"model.attention.kind": "performer", "model.attention.redraw_every": 3}


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def test_each_layer_stores_its_features_as_statistics():
    model = make_model(tiny(REDRAWN | {"model.attention.features": 7}))
    _, params, stats = split(model)
    assert "features" not in params["stack"]["layers"]["attention"]
    drawn = call(lambda: initialise_statistics(model, 0))["stack"]["layers"]["attention"]["features"]
    assert drawn.shape == stats["stack"]["layers"]["attention"]["features"].shape == (2, 7, 4)
    assert (drawn[0] != drawn[1]).all()
    assert tiny({"model.attention.kind": "performer", "model.attention.head_dim": 64}).model.attention.features == 266


def test_redrawn_features_depend_only_on_seed_and_step():
    model = make_model(tiny(REDRAWN))
    start = compiled(lambda seed: initialise_statistics(model, seed))
    step = compiled(lambda stats, seed, step: refresh(model, stats, seed, step))

    def run(seed, steps, stats=None, first=0):
        history = []
        stats = start(seed) if stats is None else stats
        for number in range(first, steps):
            stats = step(stats, seed, number)
            history.append(leaves(stats)[0])
        return history

    history = run(0, 10)
    changed = [number for number in range(1, 10) if (history[number] != history[number - 1]).any()]
    assert changed == [3, 6, 9]
    np.testing.assert_array_equal(history[0], leaves(start(0))[0])
    drawn = [history[0], history[3], history[6], history[9], run(1, 4)[0], run(1, 4)[3]]
    firsts = [layer[0, 0] for array in drawn for layer in array]
    assert len(set(map(float, firsts))) == len(firsts)
    # Resuming from the statistics of any step equals the uninterrupted run, and a redraw does not
    # depend on earlier features.
    stats = start(0)
    for number in range(5):
        stats = step(stats, 0, number)
    for one, other in zip(run(0, 10, stats, 5), history[5:], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(run(0, 7, start(5), 6)[0], history[6])


def test_redraw_interval_0_keeps_the_first_features():
    model = make_model(tiny(REDRAWN | {"model.attention.redraw_every": 0}))
    stats = random_statistics(model, 1)
    np.testing.assert_array_equal(leaves(refresh(model, stats, 0, 1000))[0], leaves(stats)[0])


# Cost


def memory(attend, length, causal):
    """Returns the temporary memory of the forward and backward pass of `attend(q, k, v, context)`,
    in bytes per token.
    """
    shapes, context = [jax.ShapeDtypeStruct((1, length, 2, 16), jnp.float32)] * 3, counting(length, causal)
    gradients = jax.jit(
        jax.grad(lambda *x: jnp.square(attend(*x, context)).sum(), (0, 1, 2)), compiler_options=quick_compilation()
    )
    return gradients.lower(*shapes).compile().memory_analysis().temp_size_in_bytes / length


@pytest.mark.parametrize(
    "causal", [pytest.param(False, marks=pytest.mark.promise(reason="programs for 8,192 tokens")), True]
)
def test_memory_is_linear_in_the_number_of_tokens(causal, monkeypatch):
    monkeypatch.undo()
    w = features(0, 44, 16)
    long, longer = (
        memory(lambda q, k, v, context: performer_attention(q, k, v, w, context, 0.25), n, causal) for n in (2048, 8192)
    )
    assert longer < 1.05 * long
    # Softmax attention does not meet this bound.
    few, many = (memory(lambda *x: KERNELS["einsum"](*x, Scoring(0.25)), n, causal) for n in (128, 512))
    assert many > 3 * few
    # About five arrays of the size of the queries; storing the features of all queries would take
    # more than seven.
    assert longer < 6 * 16 * 2 * 4
