"""Parts of configs that are refused, and the check that they are."""

import pytest

from zoo import config as configs
from zoo.errors import ConfigError

ENCODER = {"model.architecture": "encoder", "objective.kind": "masked"}
ENCODER_DECODER = {"model.architecture": "encoder_decoder", "objective.kind": "prefix"}
ELMO = {"model.architecture": "elmo", "objective.kind": "bidirectional"}
ROPE = {"model.position.kind": "rope"}
SCALED_ROPE = ROPE | {"model.position.scaling.factor": 2.0}
RELATIVE_BIAS = {"model.position.kind": "relative_bias"}
DISTILLED = {"objective.distillation.teacher": "run"}
PERFORMER = {"model.attention.kind": "performer"}
LONGFORMER = ENCODER | {"model.attention.window": 5, "model.attention.global_tokens": 1}
DISTINCT_LAYERS = "model.layers.distinct"
EMBEDDING_DIM = "model.embedding.dim"
ISOLATED = {"data.isolate_documents": True}


def kind(name, **fields):
    return {f"model.layers.kinds.{name}.{path.replace('__', '.')}": value for path, value in fields.items()}


def refused(changes):
    with pytest.raises(ConfigError) as caught:
        configs.resolve(configs.override(configs.default(), changes))
    return caught.value.problems


def check_refused(changes, words):
    """Checks that a config is refused in one line that contains these words."""
    lines = refused(changes)
    assert len(lines) == 1, lines
    assert all(word in lines[0] for word in words), lines[0]
    assert "\n" not in lines[0]


def case_id(value):
    """Returns the test id of a parameter."""
    return ",".join(f"{path}={level}" for path, level in value.items()) if isinstance(value, dict) else ""
