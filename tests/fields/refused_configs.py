"""Combinations of fields, by what is refused of them."""

import pytest

from zoo import config as configs
from zoo.errors import ConfigError

ENCODER = {"model.architecture": "encoder", "objective.kind": "masked"}
TWO = {"model.architecture": "encoder_decoder", "objective.kind": "prefix"}
ELMO = {"model.architecture": "elmo", "objective.kind": "bidirectional"}
ROPE = {"model.position.kind": "rope"}
TWICE = ROPE | {"model.position.scaling.factor": 2.0}
BIAS = {"model.position.kind": "relative_bias"}
TAUGHT = {"objective.distillation.teacher": "run"}
PERFORMER = {"model.attention.kind": "performer"}
LONG = ENCODER | {"model.attention.window": 5, "model.attention.global_tokens": 1}
SHARED = "model.layers.distinct"
NARROW = "model.embedding.dim"
ISOLATED = {"data.isolate_documents": True}


def kind(name, **fields):
    return {f"model.layers.kinds.{name}.{path.replace('__', '.')}": value for path, value in fields.items()}


def refused(changes):
    with pytest.raises(ConfigError) as caught:
        configs.resolve(configs.override(configs.default(), changes))
    return caught.value.problems


def check_refused(changes, words):
    """Checks that a config is refused in one line that has these words."""
    lines = refused(changes)
    assert len(lines) == 1, lines
    assert all(word in lines[0] for word in words), lines[0]
    assert "\n" not in lines[0]


def shown(value):
    """The id of a case."""
    return ",".join(f"{path}={level}" for path, level in value.items()) if isinstance(value, dict) else ""
