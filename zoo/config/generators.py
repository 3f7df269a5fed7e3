"""The config of the generator that a model of replaced tokens is trained with."""

from collections.abc import Mapping
from typing import Any

import ml_collections

from zoo.config.field import AUTO
from zoo.nested import flatten, unflatten

LAYERS, FRACTION = "model.generator.num_layers", "model.generator.width_fraction"
# Fields that only a generator reads: its corruption, head and loss.
OF_GENERATORS = (
    FRACTION,
    "model.tie_embeddings",
    "model.head.transform",
    "model.head.transform_bias",
    "model.head.bias",
    "model.head.scale",
    "model.head.logit_scale",
    "model.head.multiplier",
    "model.head.softcap",
    "objective.mask_token_fraction",
    "objective.random_token_fraction",
    "objective.label_smoothing",
    "objective.z_loss",
    "training.eval_masks",
)
# Sizes of a generator that are a share of the model's, in the whole model and in kinds of layers. The
# width of a head stays.
_SCALED = (".attention.num_heads", ".attention.num_kv_heads", ".attention.num_query_heads", ".ffn.hidden_dim")


def generator_fields(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields in which the layers of the generator differ from those of the model: the
    number of layers, the width, heads and hidden width; the last three are rounded and at least 1.

    Args:
        flat: the resolved fields of a model with a generator, as some of its layers or all see them.
    """
    scaled = {path: value for path, value in flat.items() if path == "model.dim" or path.endswith(_SCALED)}
    share = {path: max(1, round(flat[FRACTION] * value)) for path, value in scaled.items() if value != AUTO}
    return share | {"model.num_layers": flat[LAYERS]}


def generator_config(model: Mapping[str, Any]) -> ml_collections.FrozenConfigDict:
    """Returns the `model` part of a resolved config as the layers of its generator see it."""
    flat = {f"model.{path}": value for path, value in flatten(model).items()}
    return ml_collections.FrozenConfigDict(unflatten(flat | generator_fields(flat))["model"])
