"""RWKV-7's time mixing: its equation, and easy mistakes in it."""

from itertools import pairwise
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.layers.attention.test_linear_recurrence import DOCUMENTS, PACKED, PADDED, SMALL
from tests.support.building import ENCODER, as_float64, call, close, counting, random_values, tiny, with_values
from tests.support.comparisons import compared
from zoo.config.kinds import ATTENTION_KINDS
from zoo.errors import ConfigError
from zoo.layers.attention import make_attention
from zoo.layers.cache import Cache
from zoo.layers.context import Context
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.functional import initialise

B, T, D = 2, 12, 16
RWKV7 = {"model.attention.kind": "rwkv7", "model.position.kind": "none"}


def configured(**more):
    return tiny(RWKV7 | SMALL | {f"model.attention.{name}": value for name, value in more.items()}).model


LAYERS = {
    "": configured(),
    "wide values, other ranks": configured(
        norm_epsilon=0.3, value_dim=6, decay_rank=2, rate_rank=3, value_rank=5, gate_rank=7
    ),
    "own values": configured(value_rank=0),
}


def of_two_layers(config, values, x, positions, documents=None):
    """Two layers; the second reads the values of the first."""
    published = {}
    for own in values:
        context = Context(jnp.asarray(positions), documents, published=published)
        x = x + with_values(make_attention(config), own)(x, context)
        published = MappingProxyType(dict(published))
    return x


def expected_of(config, values, x, positions, documents):
    """The same by the equation."""
    rows = reference.Rows(positions, documents)
    for own in values:
        x = x + reference.attention_layer(config, own, x, rows)
    return x


@pytest.mark.parametrize("name", LAYERS)
def test_layer_matches_its_equation_with_gradients(name):
    """In a packed row and in one that begins with padding."""
    config = LAYERS[name]
    positions, documents = np.stack([PACKED[0], PADDED[0]]), np.stack([DOCUMENTS[0], 0 * DOCUMENTS[0]])
    values = [random_values(make_attention(config), seed) for seed in (1, 2)]
    x, weights = (np.random.default_rng(seed).standard_normal((B, T, D)) for seed in (3, 4))
    weights = weights * (positions >= 0)[..., None]

    def total(given):
        y = of_two_layers(config, given[1], given[0], positions, jnp.asarray(documents))
        return (y * weights).sum(), y

    (_, found), gradients = call(jax.value_and_grad(total, has_aux=True), (np.float32(x), values))
    leaves, structure = jax.tree.flatten((x, as_float64(values)))

    def expected(leaves):
        x, values = jax.tree.unflatten(structure, leaves)
        return expected_of(config, values, x, positions, documents)

    compared(found[positions >= 0], expected(leaves)[positions >= 0], config=config, parts="model.attention")

    # The derivative along a random direction of each array in turn, or of all at once.
    generator, step = np.random.default_rng(5), 1e-5
    directions = [generator.standard_normal(leaf.shape) for leaf in leaves]
    for places in [[place] for place in range(len(leaves))] if name == "" else [range(len(leaves))]:
        moved = [
            [leaf + by * directions[place] * (place in places) for place, leaf in enumerate(leaves)]
            for by in (step, -step)
        ]
        slope = np.subtract(*((expected(each) * weights).sum() for each in moved)) / (2 * step)
        of_places = [(jax.tree.leaves(gradients)[place], directions[place]) for place in places]
        size = np.sqrt(sum(np.square(gradient).sum() for gradient, _ in of_places))
        along = sum((gradient * direction).sum() for gradient, direction in of_places)
        assert abs(along - slope) <= 1e-5 * max(size, 0.1), places


def test_values_of_the_first_layer_are_its_own_and_its_gate_gets_no_gradient():
    config = LAYERS[""]
    values = [random_values(make_attention(config), seed) for seed in (1, 2)]
    x = np.random.default_rng(3).standard_normal((B, T, D)).astype(np.float32)
    gradients = call(
        jax.grad(lambda values: jnp.square(of_two_layers(config, values, x, np.arange(T)[None])).sum()), values
    )
    first, second = (gradient["value_gate"] for gradient in gradients)
    assert not any(leaf.any() for leaf in jax.tree.leaves(first))
    assert all(leaf.any() for leaf in jax.tree.leaves(second))


def test_documents_of_a_packed_row_are_rows_of_their_own():
    # One chunk holds the whole row.
    config = tiny(RWKV7).model
    values = [random_values(make_attention(config), seed) for seed in (1, 2)]
    x = np.random.default_rng(2).standard_normal((1, 16, D)).astype(np.float32)

    def packed(x, starts):
        lengths = np.diff(starts)
        documents = jnp.asarray(np.repeat(np.arange(len(lengths)), lengths)[None])
        return of_two_layers(config, values, x, np.concatenate([np.arange(n) for n in lengths])[None], documents)

    def run(x):
        starts = (0, 7, 16)
        alone = [of_two_layers(config, values, x[:, a:b], np.arange(b - a)[None]) for a, b in pairwise(starts)]
        return packed(x, starts), jnp.concatenate(alone, axis=1)

    (found, alone), gradient = call(
        lambda x: (run(x), jax.grad(lambda x: jnp.square(packed(x, (0, 3, 9, 16))[:, 9:]).sum())(x)), x
    )
    close(found, alone)
    assert not gradient[:, :9].any()
    assert gradient[:, 9:].all(axis=-1).all()


def filled_cache(config, x, positions, newest):
    """Returns the entries of the cache of one layer after a prompt."""
    module = with_values(make_attention(config), random_values(make_attention(config), 2))
    cache = Cache([{}], jnp.asarray(newest), jnp.int32(x.shape[1] - 1), 12)
    module(x, Context(jnp.asarray(positions), in_order=True, cache=cache, published={}))
    return cache.entries


def test_state_is_float32_in_bfloat16_models_and_as_large_as_counted():
    config = tiny(RWKV7 | {"model.dtype": "bfloat16", "model.attention.value_dim": 3}).model
    row = jax.ShapeDtypeStruct((B, T, D), jnp.bfloat16)
    entries = jax.eval_shape(lambda x: filled_cache(config, x, PADDED, [T - 1, 3]), row)
    assert entries["attention"].state.dtype == jnp.float32
    counted = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(entries))
    assert counted == B * ATTENTION_KINDS.code_of("rwkv7").state_bytes(config) == B * (4 * 4 * 4 * 3 + 2 * D)


def test_padding_after_a_prompt_changes_no_state():
    config = LAYERS[""]
    x = np.random.default_rng(2).standard_normal((1, T, D)).astype(np.float32)

    def last_state(x, positions):
        return filled_cache(config, x, positions, [6])

    padded, alone = call(lambda x: (last_state(x, PADDED[1:]), last_state(x[:, :7], PADDED[1:, :7])), x)
    jax.tree.map(close, padded, alone)


def test_initial_values_follow_the_authors_code():
    """Numbers of their formulas, for D = 8 with heads of 4, layers 0 and 2 of 3, computed by hand."""
    sizes = {"model.dim": 8, "model.attention.num_heads": 2, "model.num_layers": 3}
    model = make_model(tiny(RWKV7 | sizes))
    layers = jax.tree.map(np.asarray, initialise(model, 0)["stack"]["layers"]["attention"])
    close(layers["receptance_mix"][0, [0, 4]], [1, 1 - 0.5**0.2])
    close(layers["decay_mix"][2, [0, 4]], [1, 1 - 0.5**0.3])
    close(layers["decay"]["bias"][0, [0, 7]], [-8, 3])
    close(layers["decay"]["bias"][2, 4], -5.5 + 6 * (4 / 7) ** 2 - 2.5)
    close(layers["decay"]["bias"][1, 5], -5.5 + 6 * (5 / 7) ** (1 + 0.5**0.3) - 2.5 / 9)
    close(layers["rate"]["bias"][1, [0, 7]], [-0.19 - 0.3 - 0.2, -0.19 + 0.3 + 0.2])
    close(layers["value_gate"]["bias"][1, [0, 7]], [0.93, 0.53])
    close(layers["erased_scale"][2, [0, 7]], [0.76, 0.66])
    close(layers["scale"][:, 0], [(1 / 3) ** 0.7, (2 / 3) ** 0.7, 1])
    assert not layers["decay"]["down"]["kernel"].any()
    assert layers["decay"]["up"]["kernel"].std() == pytest.approx(0.1 * 8**-0.5, rel=0.1)
    assert layers["key"]["kernel"].std() == pytest.approx(0.1 * layers["receptance"]["kernel"].std(), rel=0.3)
    # What decays and rates begin with is no matrix, so weight decay leaves it out.
    assert all(layers[name].ndim == 2 for name in ("bonus", "rate_share", "erased_scale", "scale", "decay_mix"))
    assert all(layers[name]["bias"].ndim == 2 for name in ("decay", "rate", "value_gate"))


def test_parameters_operations_and_ranks_are_counted():
    config = tiny(RWKV7 | {"model.dim": 768, "model.attention.num_heads": 12, "model.ffn.hidden_dim": 24})
    attention = config.model.attention
    # The ranks of the authors' formulas at this width.
    assert (attention.decay_rank, attention.rate_rank, attention.value_rank, attention.gate_rank) == (64, 64, 32, 128)
    counted = cost.summary(config)
    matrices = 4 * 768**2 + 2 * 768 * (64 + 64 + 32 + 128)
    assert counted.blocks["blocks/attention"] == 2 * (matrices + (6 + 3 + 5) * 768)
    assert ATTENTION_KINDS.code_of("rwkv7").product_flops(config.model, 10, 0) == 8 * 12 * 64 * 64 * 10
    short, long = (cost.summary(tiny(RWKV7 | {"data.sequence_length": n})).flops_per_token for n in (128, 4096))
    assert short == pytest.approx(long)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (ENCODER, "rwkv7 reads a row from left to right; it needs model.architecture=decoder, got encoder"),
        ({"model.attention.key_heads": 2}, "model.attention.key_heads=2: the heads of model.attention.kind=rwkv7"),
        ({"model.attention.chunk_tokens": 128}, "chunk_tokens=128: model.attention.kind=rwkv7 divides by the decays"),
        ({"model.attention.chunk_tokens": 48}, "chunk_tokens=48 must be a power of two"),
        ({"model.attention.convolution_width": 4}, "convolution_width=4 has no effect"),
        ({"model.attention.negative_eigenvalues": True}, "negative_eigenvalues=True has no effect"),
        ({"model.position.kind": "rope"}, "kind=rwkv7 cannot be combined with model.position.kind=rope"),
        ({"model.parametrization": "mup", "model.base_dim": 8}, "has no rule for the gates and the state of"),
        ({"objective.kind": "prefix"}, "rwkv7 cannot be combined with objective.kind=prefix"),
        (
            {"model.layers.pattern": ("a", "b"), "model.layers.kinds.a.attention.kind": "softmax",
             "model.layers.kinds.b.attention.value_rank": 4},
            "model.layers.kinds.b.attention.kind=rwkv7 reads the values of the first layer, whose kind a has",
        ),
        (
            {"model.layers.pattern": ("a", "b"), "model.layers.kinds.a.attention.value_dim": 3,
             "model.layers.kinds.b.attention.value_dim": 5},
            "model.layers.kinds.b.attention.value_dim=5 reads the values of the first layer",
        ),
        (
            {"model.layers.pattern": ("a", "b"), "model.layers.kinds.a.attention.value_rank": 0,
             "model.layers.kinds.b.attention.value_rank": 5},
            "model.layers.kinds.b.attention.value_rank=5 reads the values of the first layer, whose kind a has",
        ),
    ],
)  # fmt: skip
def test_what_it_excludes_is_refused(changes, message):
    with pytest.raises(ConfigError) as refused:
        tiny(RWKV7 | changes)
    assert any(message in line for line in refused.value.problems), refused.value.problems


def test_own_values_may_follow_a_layer_of_another_kind():
    config = tiny(
        RWKV7
        | {
            "model.layers.pattern": ("a", "b"),
            "model.layers.kinds.a.attention.kind": "softmax",
            "model.layers.kinds.b.attention.value_rank": 0,
        }
    )
    model = make_model(config)
    values, tokens = random_values(model, 1), np.random.default_rng(0).integers(0, 13, (2, 8))
    found = call(lambda tokens: with_values(model, values)(tokens, counting(8)), tokens)
    expected = reference.hidden_states(config.model, as_float64(values), tokens, reference.counting(2, 8))
    close(found, expected)
