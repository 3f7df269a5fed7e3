"""The rules that map zoo's parameters to named tensors and back: expected arrangements, round trips,
and errors.
"""

import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.building import tiny
from zoo.errors import DataError
from zoo.interop.weights.mapping import (
    IDENTITY,
    REVERSED,
    TRANSPOSED,
    ConstantTensor,
    IgnoredTensors,
    Rule,
    TiedTensor,
    Transform,
    from_zoo,
    fused,
    fused_linear,
    layers,
    linear,
    norm,
    tensor_shapes,
    to_zoo,
)
from zoo.nested import flatten, unflatten


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


# Rules and parameters of a two-layer model with a fused projection.
RULES = [
    Rule("table", ("embedding",)),
    *(Rule(rule.name, tuple(f"stack/{path}" for path in rule.paths), rule.transform, (0, 1))
      for rule in fused_linear(["query", "key"], "h.{layer}.qk", [4, 2])),
    TiedTensor("head", "table"),
    IgnoredTensors(r"h\.\d+\.mask"),
]  # fmt: skip
PARAMS = {
    "embedding": numbers(5, 3),
    "stack": {
        "query": {"kernel": numbers(2, 3, 4), "bias": numbers(2, 4)},
        "key": {"kernel": 100 + numbers(2, 3, 2), "bias": 50 + numbers(2, 2)},
    },
}


def checkpoint():
    return from_zoo(RULES, PARAMS)


def test_rules_give_the_expected_tensors():
    tensors = checkpoint()
    assert set(tensors) == {"table", "h.0.qk.weight", "h.0.qk.bias", "h.1.qk.weight", "h.1.qk.bias"}
    np.testing.assert_array_equal(tensors["h.1.qk.bias"], [4, 5, 6, 7, 52, 53])
    np.testing.assert_array_equal(tensors["h.1.qk.weight"][:, 0], [12, 13, 14, 15, 106, 107])
    assert tensors["h.0.qk.weight"].shape == (6, 3)


def test_mapping_round_trip():
    read = to_zoo(RULES, checkpoint(), PARAMS)
    assert set(flatten(read, "/")) == set(flatten(PARAMS, "/"))
    for path, value in flatten(read, "/").items():
        np.testing.assert_array_equal(value, flatten(PARAMS, "/")[path])
        assert value.dtype == np.float32
        assert value.flags.c_contiguous


def test_reading_keeps_dtypes_and_copies_tensors():
    tensors = {name: tensor.astype(np.float64) for name, tensor in checkpoint().items()}
    read = to_zoo(RULES, tensors, PARAMS)
    assert {leaf.dtype for leaf in flatten(read, "/").values()} == {np.dtype(np.float64)}
    read["embedding"][:] = -1
    assert tensors["table"].min() == 0


def test_tensor_shapes_need_no_values():
    shapes = tensor_shapes(
        RULES, unflatten({path: np.broadcast_to(0, leaf.shape) for path, leaf in flatten(PARAMS, "/").items()}, "/")
    )
    assert shapes == {name: tensor.shape for name, tensor in checkpoint().items()}


def test_one_group_concatenates_the_parts():
    first, second = fused([4, 2]).split(numbers(6))
    np.testing.assert_array_equal(first, [0, 1, 2, 3])
    np.testing.assert_array_equal(second, [4, 5])


def test_several_groups_interleave_the_parts():
    # Two heads of width 2 are stored as q0 q0 k0 k0 v0 v0 q1 q1 k1 k1 v1 v1.
    query, key, value = fused([4, 4, 4], groups=2).split(numbers(12))
    np.testing.assert_array_equal(query, [0, 1, 6, 7])
    np.testing.assert_array_equal(key, [2, 3, 8, 9])
    np.testing.assert_array_equal(value, [4, 5, 10, 11])


def test_groups_along_the_last_dimension():
    first, second = fused([2, 2], groups=2, axis=-1).split(numbers(3, 4))
    np.testing.assert_array_equal(first, numbers(3, 4)[:, [0, 2]])
    np.testing.assert_array_equal(second, numbers(3, 4)[:, [1, 3]])


def test_parts_must_divide_into_groups():
    with pytest.raises(ValueError, match="3 groups"):
        fused([4, 4], groups=3)


@given(
    groups=st.integers(1, 4),
    widths=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    axis=st.sampled_from([0, -1]),
    transposed=st.booleans(),
)
def test_arrangements_are_bijections(groups, widths, axis, transposed):
    sizes = [groups * width for width in widths]
    shape = (sum(sizes), 5) if axis == 0 else (5, sum(sizes))
    transform = fused(sizes, groups, axis).then(TRANSPOSED if transposed else IDENTITY)
    parts = transform.split(numbers(*shape))
    assert sorted(np.concatenate([part.ravel() for part in parts])) == list(range(np.prod(shape)))
    np.testing.assert_array_equal(transform.join(parts), numbers(*shape))


def test_reversed_rows():
    np.testing.assert_array_equal(REVERSED.split(numbers(3, 2))[0], [[4, 5], [2, 3], [0, 1]])
    np.testing.assert_array_equal(REVERSED.join(REVERSED.split(numbers(3, 2))), numbers(3, 2))


def test_all_problems_are_named_at_once():
    tensors = checkpoint() | {
        "h.7.qk.weight": numbers(2),
        "head": numbers(5, 3) + 1,
        "table": numbers(5, 3),
        "h.0.mask": numbers(9),
    }
    tensors["h.0.qk.bias"] = numbers(5)
    del tensors["h.1.qk.bias"], tensors["h.0.qk.weight"], tensors["h.1.qk.weight"]
    with pytest.raises(DataError) as caught:
        to_zoo(RULES, tensors, PARAMS)
    assert caught.value.problems == [
        "tensor h.{layer}.qk.weight is missing in all 2 layers: h.0.qk.weight, ...",
        "tensor h.1.qk.bias is missing",
        "tensor h.0.qk.bias has shape (5,), expected (6,)",
        "tensor head is not equal to table, which it is tied to",
        "tensor h.7.qk.weight has no place in the model",
    ]


def test_equal_tied_copies_and_ignored_tensors_are_skipped():
    read = to_zoo(RULES, checkpoint() | {"head": numbers(5, 3), "h.1.mask": numbers(1)}, PARAMS)
    np.testing.assert_array_equal(read["embedding"], numbers(5, 3))


def test_a_shared_tensor_is_read_under_any_of_its_names():
    stored = checkpoint()
    stored["head"] = stored.pop("table")
    np.testing.assert_array_equal(to_zoo(RULES, stored, PARAMS)["embedding"], numbers(5, 3))
    with pytest.raises(DataError, match=r"tensor table has shape \(4, 3\), expected \(5, 3\)"):
        to_zoo(RULES, stored | {"head": numbers(4, 3)}, PARAMS)
    with pytest.raises(DataError, match="is not equal to table, which it is tied to"):
        to_zoo([*RULES, TiedTensor("second", "table")], stored | {"second": 1 + numbers(5, 3)}, PARAMS)


def test_ignored_names_must_match_fully():
    with pytest.raises(DataError, match=r"h\.1\.mask\.weight has no place"):
        to_zoo(RULES, checkpoint() | {"h.1.mask.weight": numbers(1)}, PARAMS)


def test_constant_tensors_are_written_and_checked():
    fixed = ConstantTensor("h.{layer}.beta", np.float32(0.5), (0, 1))
    rules = [*RULES, fixed]
    written = from_zoo(rules, PARAMS)
    assert set(written) == set(checkpoint()) | {"h.0.beta", "h.1.beta"}
    assert written["h.1.beta"] == 0.5
    # A file may lack them, or hold them in fewer bits.
    for tensors in (checkpoint(), written | {"h.0.beta": np.float32(0.501)}):
        np.testing.assert_array_equal(to_zoo(rules, tensors, PARAMS)["embedding"], numbers(5, 3))
    with pytest.raises(DataError, match=r"tensor h\.1\.beta is 0\.75, and the model has 0\.5 there"):
        to_zoo(rules, written | {"h.1.beta": np.float32(0.75)}, PARAMS)


@pytest.mark.parametrize(
    "rules", [RULES[1:], [*RULES, Rule("again", ("embedding",))], [*RULES, Rule("x", ("nothing",))]]
)
def test_rules_must_be_one_to_one(rules):
    with pytest.raises(ValueError, match="not one to one"):
        from_zoo(rules, PARAMS)


def test_consume_frees_parameters_early():
    """With `consume`, an export never holds the model in memory twice."""
    params = {"first": numbers(2, 3, 4), "second": numbers(2, 3, 4)}
    alive = {name: weakref.ref(array) for name, array in params.items()}
    alive_at_join = []

    def joined(parts):
        alive_at_join.append([name for name in alive if alive[name]() is not None])
        return parts[0].T

    rules = [Rule("{layer}." + name, (name,), Transform(lambda x: (x.T,), joined), (0, 1)) for name in params]
    tensors = from_zoo(rules, params, consume=True)
    assert alive_at_join == [["first", "second"]] * 2 + [["second"]] * 2
    assert params == {}
    np.testing.assert_array_equal(tensors["1.second"], numbers(2, 3, 4)[1].T)


def test_rules_of_linear_layers_and_norms_follow_the_config():
    assert [rule.name for rule in linear("up", "fc", bias=False)] == ["fc.weight"]
    assert [rule.name for rule in linear("up", "fc")] == ["fc.weight", "fc.bias"]
    cases = {(): ["weight", "bias"], ("bias", False): ["weight"], ("kind", "rmsnorm"): ["weight"], ("scale", False): ["bias"],
             ("kind", "none"): []}  # fmt: skip
    for change, expected in cases.items():
        config = tiny({f"model.norm.{change[0]}": change[1]} if change else {}).model
        assert [rule.name for rule in norm("norm", "ln", config)] == [f"ln.{name}" for name in expected]


def test_each_layer_kind_is_stacked_separately():
    config = tiny(
        {
            "model.num_layers": 5,
            "model.layers.pattern": ("local", "local", "global"),
            "model.layers.kinds.local.attention.window": 3,
            "model.layers.kinds.global.attention.bias": False,
        }
    ).model
    rules = layers(
        config, lambda config: linear("query", f"h.{{layer}}.w{config.attention.window}", config.attention.bias)
    )
    assert [(rule.names(), rule.paths) for rule in rules] == [
        (["h.0.w3.weight", "h.1.w3.weight", "h.3.w3.weight", "h.4.w3.weight"], ("stack/layers/local/query/kernel",)),
        (["h.0.w3.bias", "h.1.w3.bias", "h.3.w3.bias", "h.4.w3.bias"], ("stack/layers/local/query/bias",)),
        (["h.2.w0.weight"], ("stack/layers/global/query/kernel",)),
    ]
    assert {rule.layers for rule in layers(tiny().model, lambda config: linear("query", "h.{layer}"))} == {(0, 1)}
