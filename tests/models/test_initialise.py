"""Initial values: what they depend on, and whether their distributions match the formulas."""

import math
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import zoo.config
from tests.support.building import call, tiny
from zoo.models.architectures import make_model
from zoo.models.functional import initialise, logical_axes, parameter_traits, split

# A GPT with an untied head, which has every kind of parameter.
FULL = {
    "model.position.kind": "learned",
    "model.tie_embeddings": False,
    "model.ffn.kind": "swiglu",
    "model.init.std": 0.5,
}


def values(overrides=None, seed=0):
    """Flat {path: array} of the initial values of a tiny model."""
    model = make_model(tiny(FULL | (overrides or {})))
    # Not compiled as one program, because the small programs of its operations are shared by all
    # these models.
    nested = jax.tree.map(np.asarray, initialise(model, seed))
    return {"/".join(key.key for key in path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(nested)}


@pytest.fixture(scope="module")
def base():
    return values()


def drawn(flat):
    return [path for path, value in flat.items() if value.std() > 0]


def test_value_is_its_initialiser_at_the_key_of_seed_and_path(base):
    def expected(path, shape):
        return 0.5 * jax.random.normal(jax.random.fold_in(jax.random.key(7), zlib.crc32(path.encode())), shape)

    flat = values(seed=7)
    np.testing.assert_allclose(flat["embedding"], expected("embedding", (13, 16)), rtol=1e-6)
    np.testing.assert_allclose(flat["head/weights"], expected("head/weights", (13, 16)), rtol=1e-6)
    for layer in range(2):
        kernel = expected(f"stack/layers/{layer}/attention/query/kernel", (16, 16))
        np.testing.assert_allclose(flat["stack/layers/attention/query/kernel"][layer], kernel, rtol=1e-6)


def test_all_random_values_are_distinct(base):
    paths = drawn(base)
    assert len(paths) == 3 + 7  # embedding, positions and head; 4 matrices of attention and 3 of the feed-forward
    firsts = [row.flat[0] for path in paths for row in (base[path] if path.startswith("stack") else base[path][None])]
    assert len(set(map(float, firsts))) == len(firsts) == 3 + 2 * 7


def test_norms_start_at_one_and_biases_at_zero(base):
    for path, value in base.items():
        if path not in drawn(base):
            assert path.endswith(("scale", "bias"))
            assert (value == (1 if path.endswith("scale") else 0)).all()


@pytest.mark.parametrize(
    "overrides",
    [
        {"model.num_layers": 4},
        {"model.dropout": 0.3, "model.attention.dropout": 0.1, "model.scan_layers": True, "model.remat": "full"},
        {"model.norm.kind": "rmsnorm"},
        {"model.norm.placement": "post", "model.position.kind": "rope"},
        {"model.norm.kind": "none"},
        {"model.ffn.kind": "gelu"},
        {"model.tie_embeddings": True},
        {"model.attention.bias": False},
    ],
    ids=str,
)
def test_models_share_initial_values_of_common_parameters(base, overrides):
    other = values(overrides)
    shared = set(base) & set(other)
    assert len(shared) >= 12
    for path in shared:
        one, two = base[path], other[path]
        layers = min(len(one), len(two)) if path.startswith("stack") else None
        np.testing.assert_array_equal(one[:layers], two[:layers], err_msg=path)


def test_seeds_give_different_values(base):
    other = values(seed=1)
    for path in drawn(base):
        assert abs(base[path] - other[path]).min() > 0


def test_a_traced_seed_gives_the_same_values(base):
    model = make_model(tiny(FULL))
    nested = call(lambda seed: initialise(model, seed), np.uint32(0))
    np.testing.assert_allclose(nested["embedding"], base["embedding"], rtol=1e-6)
    stacked = nested["stack"]["layers"]["ffn"]["gate"]["kernel"]
    np.testing.assert_allclose(stacked, base["stack/layers/ffn/gate/kernel"], rtol=1e-6)


# Wide enough to know a standard deviation to 1 %, and not square, so that fan-in and fan-out
# differ.
WIDE = {
    "model.dim": 64,
    "model.ffn.hidden_dim": 320,
    "model.vocab_size": 300,
    "model.attention.num_kv_heads": 1,
    "model.tie_embeddings": False,
    "model.ffn.kind": "gelu",
}
FORMULAS = {
    "normal": lambda fan_in, fan_out: 0.02,
    "xavier_uniform": lambda fan_in, fan_out: math.sqrt(2 / (fan_in + fan_out)),
    "xavier_normal": lambda fan_in, fan_out: math.sqrt(2 / (fan_in + fan_out)),
    "lecun_normal": lambda fan_in, fan_out: math.sqrt(1 / fan_in),
    "he_normal": lambda fan_in, fan_out: math.sqrt(2 / fan_in),
}


@pytest.mark.parametrize(("kind", "scale_residual"), [*((kind, False) for kind in FORMULAS), ("he_normal", True)])
def test_initialiser_has_the_deviation_of_its_formula(kind, scale_residual):
    model = make_model(tiny(WIDE | {"model.init.kernel": kind, "model.init.scale_residual": scale_residual}))
    nested = jax.tree.map(np.asarray, initialise(model, 0))
    layers = nested["stack"]["layers"]
    last = 1 / math.sqrt(2 * 2) if scale_residual else 1.0
    cases = {
        "query": (layers["attention"]["query"]["kernel"], 64, 64, 1.0),
        "key": (layers["attention"]["key"]["kernel"], 64, 16, 1.0),
        "output": (layers["attention"]["output"]["kernel"], 64, 64, last),
        "up": (layers["ffn"]["up"]["kernel"], 64, 320, 1.0),
        "down": (layers["ffn"]["down"]["kernel"], 320, 64, last),
        "head": (nested["head"]["weights"][None], 64, 300, 1.0),
    }
    for name, (stacked, fan_in, fan_out, factor) in cases.items():
        kernel, deviation = np.asarray(stacked), factor * FORMULAS[kind](fan_in, fan_out)
        assert kernel.std() / deviation == pytest.approx(1, abs=4 / math.sqrt(2 * kernel.size)), name
        assert abs(kernel.mean()) < 4 * deviation / math.sqrt(kernel.size), name
        if kind == "xavier_uniform":
            bound = factor * math.sqrt(6 / (fan_in + fan_out))
            assert 0.98 * bound < abs(kernel).max() <= bound * (1 + 1e-6), name
        elif kind in ("lecun_normal", "he_normal"):
            # A normal distribution truncated at two deviations has 0.87962566 of its deviation,
            # which is corrected.
            assert 2 * deviation < abs(kernel).max() <= 2 * deviation / 0.87962566 * (1 + 1e-6), name
        else:
            assert abs(kernel).max() > 3 * deviation, name


@pytest.mark.parametrize(
    ("overrides", "deviation"),
    [
        ({"model.init.std": 0.05}, 0.05),
        ({"model.init.kernel": "xavier_uniform"}, 64**-0.5),
        ({"model.init.embedding_std": 0.3}, 0.3),
    ],
)
def test_embeddings_can_have_their_own_deviation(overrides, deviation):
    model = make_model(tiny(WIDE | overrides | {"model.position.max_length": 200}))
    nested = jax.tree.map(np.asarray, initialise(model, 0))
    for table in (nested["embedding"], nested["position"]["table"]):
        assert table.std() == pytest.approx(deviation, abs=4 * deviation / math.sqrt(2 * table.size))


def test_abstract_model_has_the_published_parameter_count():
    spec = Path(__file__).resolve().parents[2] / "configs" / "llama.py"
    before = len(jax.live_arrays())
    model = make_model(zoo.config.resolve(zoo.config.load(f"{spec}:v2-70b")))
    state = [variable.get_value() for _, variable in nnx.state(model).flat_state()]
    assert len(jax.live_arrays()) == before
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) and leaf.dtype == jnp.float32 for leaf in state)
    # Touvron et al. 2023b: counted from the published weights.
    assert sum(math.prod(leaf.shape) for leaf in state) == 68_976_648_192


def test_logical_axes_name_every_dimension():
    model = make_model(tiny(FULL))
    shapes = split(model)[1]
    axes = jax.tree.leaves(logical_axes(model), is_leaf=lambda node: isinstance(node, tuple))
    for shape, names, unrolled in zip(
        jax.tree.leaves(shapes), axes, jax.tree.leaves(parameter_traits(model).ndim), strict=True
    ):
        assert len(names) == len(shape.shape)
        assert unrolled == len(shape.shape) - ("layers" in names)
        sizes = {"layers": 2, "vocab": 13, "embed": 16, "mlp": 24, "heads": 16, "kv_heads": 16}
        assert all(name is None or sizes[name] == size for name, size in zip(names, shape.shape, strict=True))
