"""Roles of parameters, and the assignment of parameters to optimizer groups."""

import pytest

from tests.support.small_runs import OBJECTIVES, small
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.models.functional import _leaves
from zoo.models.parameter_groups import group_labels, group_sizes
from zoo.nested import flatten
from zoo.training.mesh import LOGICAL_AXIS_RULES


def model_of(**changes):
    config = configs.resolve(small(**{"model__vocab_size": 300} | changes))
    return config, make_model(config)


def roles(**changes):
    return {"/".join(path): variable.get_metadata("role") for path, variable in _leaves(model_of(**changes)[1])}


TASK = {
    "objective__kind": "classification",
    "model__head__classes": 3,
    "data__source": "stdlib",
    "training__eval_batches": 0,
}
# For each model, the roles of all parameters that are neither a matrix nor a vector.
OTHERS = [
    ({}, {"embedding": "embedding", "position/table": "embedding"}),
    ({"model__tie_embeddings": False, "model__head__transform": True, "model__position__kind": "none", "model__attention__sinks": True},
     {"embedding": "embedding", "head/weights": "head", "head/dense/kernel": "head", "stack/layers/attention/sinks": "scalar"}),
    ({"model__attention__kind": "forgetting", "model__attention__qk_norm": "cosine", "model__attention__ssmax": 0.3,
      "model__attention__gate": "head", "model__position__kind": "rope"},
     {"embedding": "embedding", "stack/layers/attention/query_norm/log_factor": "scalar",
      "stack/layers/attention/length_factor/s": "scalar"}),
    ({"model__position__kind": "relative_bias"}, {"embedding": "embedding", "position/table": "scalar"}),
    ({"model__position__kind": "shaw"}, {"embedding": "embedding", "stack/layers/attention/position/keys": "embedding",
                                         "stack/layers/attention/position/values": "embedding"}),
    ({"model__position__kind": "rope", "model__ffn__kind": "moe", "model__ffn__experts__shared_dim": 8,
      "model__ffn__experts__shared_gate": True},
     {"embedding": "embedding", "stack/layers/ffn/router/kernel": "router", "stack/layers/ffn/shared_gate/kernel": "router"}
     | {f"stack/layers/ffn/experts/{name}/kernel": "expert" for name in ("gate", "up", "down")}),
    (OBJECTIVES["pairs"], {"embedding": "embedding", "position/table": "embedding", "segments": "embedding",
                           "pooler/kernel": "head", "next_sentence/kernel": "head"}),
    (OBJECTIVES["prefix"] | {"model__embedding__shared": False, "model__position__kind": "rope"},
     {"embedding": "embedding", "source_embedding": "embedding"}),
    (OBJECTIVES["bidirectional"], {"characters/embedding": "embedding", "head/weights": "head"}),
    (TASK | {"model__position__kind": "rope"}, {"embedding": "embedding", "classifier/kernel": "head"}),
    (OBJECTIVES["bidirectional"] | TASK, {"characters/embedding": "embedding", "mix/weights": "scalar", "mix/gamma": "scalar",
                                          "classifier/kernel": "head"}),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "others"), OTHERS)
def test_every_parameter_has_the_expected_role(changes, others):
    found = roles(**changes)
    rest = {path: role for path, role in found.items() if role not in ("matrix", "vector")}
    assert rest == others
    for path, role in found.items():
        if path.endswith(("bias", "scale")):
            assert role == "vector", path
        elif path.endswith("kernel") and path not in others:
            assert role == "matrix", path


def test_models_have_exactly_the_roles_and_axes_of_the_config():
    assert set(LOGICAL_AXIS_RULES) == set(configs.LOGICAL_AXES)
    seen = set()
    for changes, _ in OTHERS:
        for path, variable in _leaves(model_of(**changes)[1]):
            seen.add(variable.get_metadata("role"))
            assert set(variable.get_metadata("axes")) <= {None, *configs.LOGICAL_AXES}, path
    assert seen == set(configs.ROLES)


def group(**selects):
    """Returns the fields of groups with these names, in this order."""
    fields = {f"optimizer__group__{name}__select": select for name, select in selects.items()}
    return {"optimizer__groups": tuple(selects)} | fields | {
        f"optimizer__group__{name}__beta1": 0.5 for name in selects
    }  # fmt: skip


def labels(**changes):
    return flatten(group_labels(*model_of(**changes)), "/")


def test_parameter_belongs_to_the_first_group_that_selects_it():
    found = labels(**group(queries="path:*/query/*", matrices="role:matrix", attention="path:stack/layers/attention/*"))
    assert found["stack/layers/attention/query/kernel"] == found["stack/layers/attention/query/bias"] == "queries"
    assert found["stack/layers/attention/key/kernel"] == found["stack/layers/ffn/up/kernel"] == "matrices"
    assert found["stack/layers/attention/key/bias"] == "attention"
    assert found["embedding"] == found["stack/layers/ffn/up/bias"] == "rest"
    swapped = labels(**group(matrices="role:matrix", queries="path:*/query/*"))
    assert swapped["stack/layers/attention/query/kernel"] == "matrices"
    assert swapped["stack/layers/attention/query/bias"] == "queries"


def test_one_matching_term_selects_a_parameter():
    found = labels(model__head__bias=True, **group(one="axes:vocab, role:vector,path:position*"))
    assert found["embedding"] == found["head/bias"] == found["final_norm/scale"] == found["position/table"] == "one"
    assert {path for path, name in found.items() if name == "rest"} == {
        f"stack/layers/{part}/kernel" for part in
        ("attention/query", "attention/key", "attention/value", "attention/output", "ffn/up", "ffn/down")
    }  # fmt: skip


@pytest.mark.parametrize("scan", [False, True])
def test_groups_can_select_kinds_of_layers(scan):
    kinds = {
        "model__num_layers": 4,
        "model__scan_layers": scan,
        "model__layers__pattern": ("near", "far"),
        "model__layers__kinds__near__attention__window": 4,
        "model__layers__kinds__far__attention__window": 0,
    }
    found = labels(**kinds, **group(near="path:stack/layers/near/*", stacked="axes:layers"))
    assert {name for path, name in found.items() if "/near/" in path} == {"near"}
    assert {name for path, name in found.items() if "/far/" in path} == {"stacked"}
    assert {name for path, name in found.items() if "layers" not in path} == {"rest"}


def test_group_sizes_sum_to_all_parameters():
    changes = {"model__vocab_size": 300, "model__position__kind": "rope"} | group(
        tables="role:embedding", vectors="role:vector"
    )
    sizes = group_sizes(configs.resolve(small(**changes)))
    assert list(sizes) == ["tables", "vectors", "rest"]
    # A layer of width D = 32 has 4 D^2 + 8 D^2 in matrices, 4 D + 5 D in biases, 4 D in norms; the
    # last norm has 2 D.
    assert sizes == {"tables": 300 * 32, "vectors": 15 * 32, "rest": 12 * 32**2}
    assert group_sizes(configs.resolve(small())) == {}


def test_groups_without_parameters_are_all_refused_at_once():
    with pytest.raises(ConfigError) as caught:
        labels(**group(tables="role:embedding", none="role:scalar,path:*/qury/*", taken="path:embedding"))
    assert caught.value.problems == [
        "optimizer.group.none.select=role:scalar,path:*/qury/*: no parameter is left; it selects none of this model",
        "optimizer.group.taken.select=path:embedding: no parameter is left; earlier groups have all parameters that "
        "it selects",
    ]
