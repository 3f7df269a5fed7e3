"""The JSON Schema of configs accepts what is shipped and refuses what `resolve` refuses by itself."""

import json

import jsonschema
import pytest

from zoo import config as configs
from zoo.config.json_schema import json_schema
from zoo.errors import ConfigError
from zoo.nested import unflatten

SCOPED = {
    "model.layers.pattern": ["local", "global"],
    "model.layers.kinds.local.attention.window": 64,
    "model.encoder.num_layers": 2,
    "model.decoder.attention.num_heads": 4,
    "optimizer.groups": "tables",
    "optimizer.group.tables.select": "role:embedding",
    "optimizer.group.tables.beta2": 0.99,
}
TYPOS = [
    *(
        {path: 1}
        for path in (
            "sed", "modle.dim", "model.dims", "model.num_layer", "model.norm.esp", "model.attention.heads",
            "model.attention.num_head", "model.ffn.hidden_dims", "data.batchsize", "data.sequence_len", "training.step",
            "training.microbatch", "optimizer.weightdecay", "optimizer.learning_rates", "schedule.warmup", "mesh.tensors",
            "objective.mask_ratio", "model.layers.kinds.local.attention.windows", "model.layers.kinds.local.dims",
            "model.encoder.num_layer", "model.decoder.attention.num_head", "optimizer.group.tables.beta_2",
            "model.layers.kind.local.attention.window", "optimizer.group.tables.selects",
        )
    ),
    *(
        {"model.norm.kind": value} for value in ("rms", "layer_norm", "RMSNorm", 1, None)
    ),
    *({"model.attention.kind": value} for value in ("multihead", "mha ", ["mha"])),
    *({"model.dim": value} for value in (0, -8, 64.5, "64", True, 2**31)),
    *({"model.dropout": value} for value in (-0.1, 1.5, "0.1", False)),
    *({"model.scan_layers": value} for value in ("true", 1)),
    *({"optimizer.learning_rate": value} for value in ("1e-3", [1e-3], 1e300)),
    *({"model.layers.pattern": value} for value in (3, [1, 2])),
    {"model.encoder.num_layers": "auto"},
    {"optimizer.group.tables.beta2": "high"},
    {"model.layers.kinds.local.attention.window": -1},
]  # fmt: skip


@pytest.fixture(scope="module")
def validator():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


# A student's config is made from a run, its teacher.
SHIPPED = [name for name in configs.shipped_names(configs.CONFIGS) if name != "distill"]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_config_is_accepted_as_given_and_resolved(validator, name):
    config = configs.load(name)
    for stage in (config, configs.resolve(config)):
        plain = json.loads(json.dumps(configs.to_plain(stage)))
        assert [error.message for error in validator.iter_errors(plain)] == []


def test_overrides_inside_scopes_are_accepted(validator):
    assert [error.message for error in validator.iter_errors(unflatten(SCOPED))] == []


@pytest.mark.parametrize("flat", TYPOS, ids=str)
def test_typos_are_refused_as_resolve_refuses_them(validator, flat):
    with pytest.raises(ConfigError):
        configs.resolve_fields(flat)
    assert not validator.is_valid(unflatten(flat))


def test_there_are_fifty_typos():
    assert len(TYPOS) >= 50


def test_every_field_has_its_meaning_and_default(validator):
    for field in configs.FIELDS:
        node = validator.schema
        for part in field.path.split("."):
            node = node["properties"][part]
        assert node["description"] == field.meaning
        assert node["default"] == (list(field.default) if isinstance(field.default, tuple) else field.default)
