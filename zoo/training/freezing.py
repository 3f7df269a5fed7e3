"""Freezing of parameters: only the head of a task and the last layers are trained, or all."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from zoo.config import AUTO, ResolvedConfig
from zoo.models.functional import Params
from zoo.nested import unflatten

# Parts that only a task's head has; the norm after the last layer is trained with that layer.
HEADS, AFTER_LAYERS = ("classifier", "pooler", "mix"), ("final_norm",)


def trainable_mask(config: ResolvedConfig, module: nnx.Module) -> Params | None:
    """Returns which parameters `training.trained_layers` leaves trainable.

    With k layers these are the head's parameters and, if k > 0, those of the last k layers and of
    the norm after them. Embeddings of tokens and positions are trained only with everything.

    Args:
        config: the resolved config.
        module: the abstract model.

    Returns:
        A nested dict like the parameters with a bool for each, an array [L] for stacked layers; or
        None if everything is trained.
    """
    count = config.training.trained_layers
    if count == AUTO:
        return None
    mask: dict[str, Any] = {}
    for path, variable in nnx.state(module, nnx.Param).flat_state():
        if variable.get_metadata("axes")[:1] == ("layers",):
            trainable = np.array(variable.get_metadata("layers")) >= config.model.num_layers - count
        else:
            trainable = path[0] in HEADS or (path[0] in AFTER_LAYERS and count > 0)
        mask["/".join(map(str, path))] = trainable
    return unflatten(mask, "/")


def stop_gradient_where_frozen(params: Params, mask: Params | None) -> Params:
    """Returns the same parameters; no gradient flows to those that are not trainable.

    The compiler then drops the computations that only such gradients need.
    """

    def stop(trainable: Any, value: jax.Array) -> jax.Array:
        if np.all(trainable):
            return value
        if not np.any(trainable):
            return jax.lax.stop_gradient(value)
        return jnp.stack(
            [value[layer] if one else jax.lax.stop_gradient(value[layer]) for layer, one in enumerate(trainable)]
        )

    return params if mask is None else jax.tree.map(stop, mask, params)


def mask_updates(updates: Params, mask: Params | None) -> Params:
    """Returns the updates with 0, weight decay included, where parameters are not trainable."""

    def keep(trainable: Any, value: jax.Array) -> jax.Array:
        expanded = np.reshape(np.asarray(trainable), np.shape(trainable) + (1,) * (value.ndim - np.ndim(trainable)))
        return value if np.all(trainable) else jnp.where(expanded, value, 0)

    return updates if mask is None else jax.tree.map(keep, mask, updates)
