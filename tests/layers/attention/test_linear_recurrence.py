"""Mixers with a state: three forms of one recurrence, their equations, and easy mistakes in them."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.reference.recurrences import KINDS
from tests.support.building import (
    ENCODER,
    as_float64,
    call,
    close,
    counting,
    programs_inside,
    random_values,
    tiny,
    with_values,
)
from tests.support.comparisons import compared
from zoo.config.kinds import ATTENTION_KINDS
from zoo.config.scopes import layer_kind
from zoo.errors import ConfigError
from zoo.layers.attention import make_attention
from zoo.layers.attention.linear_recurrence import Tokens, by_chunks, token_by_token, unit_triangle_inverse
from zoo.layers.cache import Cache
from zoo.layers.context import Context
from zoo.models import cost
from zoo.models.functional import initialise

B, T, D = 2, 12, 16
PACKED = np.array([[0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0]])
DOCUMENTS = np.array([[0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]])
PADDED = np.array([[-1, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 1, 2, 3, 4, 5, 6, -1, -1, -1, -1, -1]])
KIND = "model.attention.kind"
# Chunks of 4 tokens, so that a row has several and documents begin within them.
SMALL = {"model.attention.chunk_tokens": 4}
SHARED = {"model.attention.key_heads": 2, "model.attention.value_dim": 3}
LAYERS = {
    **{kind: {} for kind in KINDS},
    "shared keys": {
        KIND: "gated_delta",
        "model.attention.negative_eigenvalues": True,
        "model.attention.norm_epsilon": 0.3,
        **SHARED,
    },
    "decays of elements, shared keys": {
        KIND: "kimi_delta",
        "model.attention.decay_rank": 5,
        "model.attention.gate_bias": False,
        **SHARED,
    },
    "without convolutions": {KIND: "delta", "model.attention.convolution_width": 0},
    "groups": {KIND: "mamba2", "model.attention.key_heads": 2},
    "a convolution of four tokens": {KIND: "gated_convolution", "model.attention.convolution_width": 4},
}


def configured(name):
    changes = {KIND: name} | LAYERS[name]
    return tiny(changes | ({} if changes[KIND] == "gated_convolution" else SMALL)).model


def drawn(length, elements, dtype, firsts):
    """Returns random tokens of 2 rows and 2 heads, with a state before them."""
    generator = np.random.default_rng(3)
    K, V = 5, 3

    def normal(*shape):
        return generator.standard_normal(shape)

    q, k, v = normal(B, 2, length, K), normal(B, 2, length, K), normal(B, 2, length, V)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    log_decay, rate = -np.exp(normal(B, 2, length, elements)), 2 / (1 + np.exp(-normal(B, 2, length)))
    first = np.zeros((B, length), bool)
    for row, places in enumerate(firsts):
        first[row, list(places)] = True
    arrays = [jnp.asarray(array, dtype) for array in (q, k, v, log_decay, rate, normal(B, 2, K, V))]
    return Tokens(*arrays[:5], jnp.asarray(first)), arrays[5]


def values_and_gradients(form, tokens, state, delta):
    """Returns (y, the last state) of a form, and the gradients of all arrays."""

    def total(arrays):
        y, last = form(Tokens(*arrays[:5], tokens.first), arrays[5], delta)
        return jnp.square(y + 1).sum() + (last**3).sum(), (y, last)

    (_, results), gradients = call(jax.value_and_grad(total, has_aux=True), (*tokens[:5], state))
    return [*results, *gradients]


def in_chunks(tokens, state, delta):
    return by_chunks(tokens, state, delta, 32)


@pytest.mark.parametrize("delta", [True, False])
@pytest.mark.parametrize("elements", [1, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_forms_are_one_function_with_one_gradient(dtype, elements, delta):
    with jax.enable_x64(dtype == np.float64):
        # 70 tokens are chunks of 32, 32 and 6, of two blocks each, in which documents begin.
        given = *drawn(70, elements, dtype, ((0, 31, 32, 50), (64,))), delta
        for found, expected in zip(
            *(values_and_gradients(form, *given) for form in (in_chunks, token_by_token)), strict=True
        ):
            assert found.dtype == dtype
            close(found, expected, 1e-5 if dtype == np.float32 else 1e-10)


def test_strong_decays_and_equal_keys_stay_finite_and_exact():
    """Products of exp(G) with exp(-G) would overflow; powers of a triangle of ones reach 1e17."""
    tokens, state = drawn(64, 5, np.float32, ((), ()))
    for hard in (
        tokens._replace(log_decay=400 * tokens.log_decay),
        tokens._replace(
            log_decay=0 * tokens.log_decay, k=jnp.full_like(tokens.k, 5**-0.5), rate=jnp.ones_like(tokens.rate)
        ),
    ):
        (y, last), (y_slow, last_slow) = (
            call(lambda hard, form=form: form(hard, state, True), hard) for form in (by_chunks, token_by_token)
        )
        close(y, y_slow)
        close(last, last_slow)


def test_inverse_of_a_triangle():
    generator = np.random.default_rng(1)
    lower = np.tril(generator.standard_normal((3, 16, 16)), -1)
    above, weights = np.triu(generator.standard_normal((3, 16, 16))), generator.standard_normal((3, 16, 16))
    inverse = np.linalg.inv(np.eye(16) + lower)
    back = -inverse.swapaxes(1, 2) @ weights @ inverse.swapaxes(1, 2)

    def total(lower):
        return (weights * unit_triangle_inverse(lower)).sum()

    with jax.enable_x64(True):
        close(call(unit_triangle_inverse, lower), inverse, 1e-10)
        close(call(jax.grad(total), lower), np.tril(back, -1), 1e-10)
        # What is on and above the diagonal counts as 0, as it does in the inverse.
        close(call(lambda change: jax.jvp(total, (lower,), (change,))[1], lower + above), (back * lower).sum(), 1e-10)


def test_products_have_few_dimensions():
    """A gradient of products of six dimensions crashes the process with jaxlib 0.10.2 on a CPU."""
    tokens, state = drawn(128, 5, np.float32, ((), ()))

    def total(arrays):
        return by_chunks(Tokens(*arrays, tokens.first), state, True)[0].sum()

    programs, products = [jax.make_jaxpr(jax.grad(total))(tuple(tokens[:5])).jaxpr], []
    while programs:
        for equation in programs.pop().eqns:
            programs += programs_inside(equation)
            products += [equation] if equation.primitive.name == "dot_general" else []
    assert len(products) > 20
    assert max(operand.aval.ndim for product in products for operand in product.invars) <= 5


def test_rows_without_documents_share_the_sums_that_find_them():
    """XLA computes sums of constants when it compiles: those of 512 rows took minutes."""
    attention, x = make_attention(configured("gated_delta")), np.zeros((B, T, D), np.float32)
    layer = with_values(attention, random_values(attention, 1))
    counted = {}
    for documents in (None, jnp.asarray(DOCUMENTS)):
        context = Context(jnp.asarray(PACKED), documents, in_order=True)
        programs = [jax.make_jaxpr(lambda x, context=context: layer(x, context))(x).jaxpr]
        while programs:
            for equation in programs.pop().eqns:
                programs += programs_inside(equation)
                if equation.primitive.name == "cumsum":
                    counted[documents is None] = equation.outvars[0].aval.shape[0]
    assert counted == {True: 1, False: B}


def contexts():
    packed = Context(jnp.asarray(PACKED), jnp.asarray(DOCUMENTS), in_order=True)
    return {"packed": (packed, PACKED, DOCUMENTS), "padded": (Context(jnp.asarray(PADDED)), PADDED, None)}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_matches_its_equation_in_packed_and_padded_rows(name):
    config = configured(name)
    values = random_values(make_attention(config), 1)
    x = np.random.default_rng(2).standard_normal((B, T, D))
    given = contexts().values()

    def run(x):
        layer = with_values(make_attention(config), values)
        return [layer(x, context) for context, *_ in given]

    for actual, (_, places, documents) in zip(call(run, np.float32(x)), given, strict=True):
        expected = reference.attention_layer(config, as_float64(values), x, reference.Rows(places, documents))
        compared(actual[places >= 0], expected[places >= 0], config=config, parts="model.attention")


def test_a_rotated_retention_matches_one_that_is_rotated_by_hand():
    config = tiny({KIND: "retnet", "model.position.kind": "rope"}).model
    values, x = (
        random_values(make_attention(config), 1),
        np.float32(np.random.default_rng(2).standard_normal((B, T, D))),
    )
    module = with_values(make_attention(config), values)

    def run(x):
        return module(x, counting(T)), module(x, Context(jnp.arange(T)[None] + 7, in_order=True))

    # Products of rotated queries and keys depend on distances alone, and they do depend on them.
    first, later = call(run, x)
    close(first, later)
    plain = with_values(make_attention(tiny({KIND: "retnet"}).model), values)
    assert np.abs(first - call(lambda x: plain(x, counting(T)), x)).max() > 1e-2


@pytest.mark.parametrize("name", [*KINDS, "shared keys"])
def test_documents_of_a_packed_row_are_rows_of_their_own(name):
    config = configured(name)
    values = random_values(make_attention(config), 1)
    x = np.random.default_rng(2).standard_normal((1, 16, D)).astype(np.float32)
    starts = (0, 4, 12, 16)
    documents = np.repeat(np.arange(3), np.diff(starts))[None]
    positions = np.concatenate([np.arange(n) for n in np.diff(starts)])[None]

    def run(x, values):
        layer = with_values(make_attention(config), values)
        packed = layer(x, Context(jnp.asarray(positions), jnp.asarray(documents), in_order=True))
        alone = [layer(x[:, a:b], counting(b - a)) for a, b in pairwise(starts)]
        return packed, jnp.concatenate(alone, axis=1)

    def last_document(x):
        layer = with_values(make_attention(config), values)
        shifted = jnp.asarray(np.repeat([0, 1, 2], [3, 6, 7])[None])
        places = jnp.asarray(np.concatenate([np.arange(3), np.arange(6), np.arange(7)])[None])
        return jnp.square(layer(x, Context(places, shifted, in_order=True))[:, 9:]).sum()

    (packed, alone), gradient = call(lambda x, values: (run(x, values), jax.grad(last_document)(x)), x, values)
    close(packed, alone)
    assert not gradient[:, :9].any()
    assert gradient[:, 9:].all(axis=-1).all()


@pytest.mark.parametrize("form", [token_by_token, lambda *given: by_chunks(*given, 4)], ids=["slow", "chunks"])
def test_a_dropped_state_leaves_no_trace_to_the_bit(form):
    tokens, state = drawn(16, 5, np.float32, ((8,), (8,)))
    alone = jax.tree.map(lambda a: a[:, 8:] if a.ndim == 2 else a[:, :, 8:], tokens)
    for delta in (True, False):
        y, last = call(lambda tokens, delta=delta: form(tokens, 1e30 * state, delta), tokens)
        y_alone, last_alone = call(lambda tokens, delta=delta: form(tokens, 0 * state, delta), alone)
        np.testing.assert_array_equal(y[:, :, 8:], y_alone)
        np.testing.assert_array_equal(last, last_alone)


@pytest.mark.parametrize("kind", KINDS)
def test_state_is_float32_in_bfloat16_models_and_as_large_as_counted(kind):
    config = tiny({KIND: kind, "model.dtype": "bfloat16"}).model
    module = with_values(make_attention(config), random_values(make_attention(config), 2))

    def fill(x):
        cache = Cache([{}], jnp.array([T - 1, 3]), jnp.int32(T - 1), 12)
        module(x, Context(jnp.asarray(PADDED), in_order=True, cache=cache))
        return cache.entries

    entries = jax.eval_shape(fill, jax.ShapeDtypeStruct((B, T, D), jnp.bfloat16))
    assert "attention" in entries
    if kind != "gated_convolution":
        assert entries["attention"].state.dtype == jnp.float32
    counted = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(entries))
    assert counted == B * ATTENTION_KINDS.code_of(kind).state_bytes(config)
    assert ATTENTION_KINDS.code_of(kind).cached_numbers(config) == 0


def test_lightning_attention_forgets_less_in_later_layers():
    module = make_attention(tiny({KIND: "lightning", "model.num_layers": 3, "model.attention.num_heads": 2}).model)
    x = np.zeros((1, 1, D), np.float32)
    for index, share in ((0, 1 + 1e-5), (1, 0.5 + 1e-5), (2, 1.5e-5)):
        decays = module.log_decay(x, None, Context(jnp.zeros((1, 1), jnp.int32), layer_index=index))
        np.testing.assert_allclose(decays.ravel(), -share * np.array([1 / 16, 1 / 256]), rtol=1e-3)


@pytest.mark.parametrize("kind", ["retnet", "mamba2"])
def test_padding_after_a_prompt_changes_no_state(kind):
    config = tiny({KIND: kind}).model
    module = with_values(make_attention(config), random_values(make_attention(config), 2))
    x = np.random.default_rng(2).standard_normal((1, T, D)).astype(np.float32)

    def last_state(x, positions):
        cache = Cache([{}], jnp.array([6]), jnp.int32(x.shape[1] - 1), 12)
        module(x, Context(jnp.asarray(positions), in_order=True, cache=cache))
        return cache.entries["attention"].state

    padded, alone = call(lambda x: (last_state(x, PADDED[1:]), last_state(x[:, :7], PADDED[1:, :7])), x)
    close(padded, alone)


def test_numbers_of_decays_begin_as_published_and_are_not_decayed():
    for kind, low, high in (("gated_delta", 0, 16), ("mamba2", 1, 16), ("kimi_delta", 1, 16)):
        module = make_attention(tiny({KIND: kind, "model.dim": 256, "model.attention.num_heads": 64}).model)
        step = initialise(module.step, 0)
        rates, sizes = np.exp(step["log_rate"]), np.log1p(np.exp(np.float64(step["bias"])))
        assert rates.ndim == sizes.ndim == 1
        assert low < rates.min() < low + 2
        assert high - 2 < rates.max() < high
        assert 0.00099 < sizes.min() < 0.0015
        assert 0.06 < sizes.max() < 0.1001
        assert module.step.log_rate.get_metadata("role") == module.step.bias.get_metadata("role") == "scalar"


def test_rates_of_decays_are_uniform_as_published():
    """exp(r) is uniform, not r: half of all rates are above the middle of their interval."""
    for kind, low in (("gated_delta", 0), ("mamba2", 1), ("kimi_delta", 1)):
        module = make_attention(tiny({KIND: kind, "model.dim": 512, "model.attention.num_heads": 512}).model)
        rates = np.exp(initialise(module.step, 0)["log_rate"])
        assert abs(rates.mean() - (low + 16) / 2) < 4 * (16 - low) / np.sqrt(12 * 512), kind


def test_other_initial_values_are_as_published():
    values = initialise(make_attention(tiny({KIND: "mamba2"}).model), 0)
    np.testing.assert_array_equal(values["skip"], 1)
    convolution = values["value_convolution"]
    taps = np.asarray(convolution["taps"])
    assert 0.4 < np.abs(taps).max() <= 4**-0.5
    assert abs(taps.mean()) < 0.1
    np.testing.assert_array_equal(convolution["bias"], 0)
    np.testing.assert_array_equal(initialise(make_attention(tiny({KIND: "gated_linear"}).model), 0)["decay_bias"], 0)


@pytest.mark.parametrize("form", [token_by_token, in_chunks])
def test_rates_up_to_2_let_equal_keys_turn_a_state_and_not_grow_it(form):
    """With a rate of 2 and no decay a key of length 1 reflects the state: S' = (I - 2 k k^T) S."""
    length = 128
    key = np.tile(np.array([0.6, 0.8, 0, 0, 0], np.float32), (1, 1, length, 1))
    tokens = Tokens(
        *(jnp.asarray(array) for array in (key, key, np.zeros((1, 1, length, 3), np.float32))),
        jnp.zeros((1, 1, length, 1)),
        jnp.full((1, 1, length), 2.0),
        jnp.zeros((1, length), bool),
    )
    state = jnp.asarray(np.random.default_rng(0).standard_normal((1, 1, 5, 3)), jnp.float32)
    y, last = call(lambda tokens, state: form(tokens, state, True), tokens, state)
    # The key's length is 1 to rounding, and so is the factor of each reflection.
    close(last, state, 1e-4)
    # What the key reads changes its sign with each token.
    read = (key[0, 0, 0] @ np.asarray(state[0, 0]))[None] * np.where(np.arange(length) % 2, 1, -1)[:, None]
    close(y[0, 0], read, 1e-4)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "gated_convolution"])
def test_memory_is_linear_in_the_length(kind):
    config = tiny({KIND: kind} | SMALL).model
    module = make_attention(config)
    values = initialise(module, 0)

    def largest(length):
        def run(values, x):
            return with_values(make_attention(config), values)(x, counting(length))

        programs, sizes = [jax.make_jaxpr(run)(values, jnp.zeros((1, length, D))).jaxpr], []
        while programs:
            for equation in programs.pop().eqns:
                programs += programs_inside(equation)
                sizes += [result.aval.size for result in equation.outvars]
        return max(sizes)

    assert largest(512) <= 4 * largest(128)


def test_operations_grow_with_the_tokens_and_not_with_their_square():
    for kind in KINDS:
        short, long = (
            cost.summary(tiny({KIND: kind, "data.sequence_length": n, "model.position.kind": "none"})).flops_per_token
            for n in (128, 4096)
        )
        assert short == pytest.approx(long), kind
    # Two heads of 8 x 3: 2 K V to write and to read the state, and once more for the delta rule.
    config = tiny({KIND: "gated_delta", "model.attention.num_heads": 2, "model.attention.value_dim": 3, **SMALL}).model
    assert ATTENTION_KINDS.code_of("gated_delta").product_flops(config, 10, 0) == 2 * 3 * 2 * 8 * 3 * 10
    assert ATTENTION_KINDS.code_of("retnet").product_flops(config, 10, 0) == 2 * 2 * 2 * 8 * 3 * 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (ENCODER, "gated_delta reads a row from left to right; it needs model.architecture=decoder, got encoder"),
        ({"model.attention.key_heads": 3}, "num_heads=4 is not divisible by model.attention.key_heads=3"),
        ({"model.attention.chunk_tokens": 48}, "chunk_tokens=48 must be a power of two"),
        ({"model.attention.convolution_width": 1}, "convolution_width=1 mixes no tokens"),
        ({"model.attention.num_heads": 3}, "model.dim=16 is not divisible by model.attention.num_heads=3"),
        ({"model.parametrization": "mup", "model.base_dim": 8}, "has no rule for the gates and the state of"),
        ({"model.position.kind": "rope"}, "kind=gated_delta cannot be combined with model.position.kind=rope"),
        ({"model.attention.qk_norm": "head"}, "qk_norm=head has no effect"),
        ({"model.attention.decay_rank": 4}, "decay_rank=4 has no effect"),
        ({"model.convolution.kind": "primer"}, "mixes queries, keys and values, and model.attention.kind=gated_delta"),
        ({"objective.kind": "prefix"}, "gated_delta cannot be combined with objective.kind=prefix"),
    ],
)
def test_what_a_state_excludes_is_refused(changes, message):
    with pytest.raises(ConfigError) as refused:
        tiny({KIND: "gated_delta"} | changes)
    assert any(message in line for line in refused.value.problems), refused.value.problems


@pytest.mark.parametrize("width", [0, 4])
def test_layers_without_convolutions_have_none_beside_others_that_have_them(width):
    kinds = {"delta": "gated_delta", "plain": "retnet"}
    pattern = {f"model.layers.kinds.{name}.attention.kind": kind for name, kind in kinds.items()}
    pattern |= {"model.layers.pattern": tuple(kinds), "model.attention.convolution_width": width}
    model = tiny({KIND: "gated_delta", **pattern}).model
    plain = make_attention(layer_kind(model, "plain"))
    assert (plain.value_convolution, plain.activated) == (None, False)
    convolved = make_attention(layer_kind(model, "delta"))
    assert ((convolved.value_convolution is None), convolved.activated) == (width == 0, True)
