"""What of a model is trained: everything, or the head of a task and the last layers alone."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from zoo.config import AUTO, ResolvedConfig
from zoo.models.functional import Params
from zoo.nested import unflatten

# Parts that only a task's head has; what normalises after the last layer goes with that layer.
HEADS, AFTER_LAYERS = ("classifier", "pooler", "mix"), ("final_norm",)


def trained_parts(config: ResolvedConfig, module: nnx.Module) -> Params | None:
    """Which values of each parameter are trained, as `training.trained_layers` says: bool, for
    stacked layers [layers].

    With k layers these are the head's, and with k > 0 those of the last k blocks and of the norm
    after them. Token and position embeddings are trained only with everything.

    Args:
        config: resolved.
        module: the model, abstract.

    Returns:
        A nested dict like the parameters', or None where everything is trained.
    """
    count = config.training.trained_layers
    if count == AUTO:
        return None
    parts: dict[str, Any] = {}
    for path, variable in nnx.state(module, nnx.Param).flat_state():
        if variable.get_metadata("axes")[:1] == ("layers",):
            trained = np.array(variable.get_metadata("layers")) >= config.model.num_layers - count
        else:
            trained = path[0] in HEADS or (path[0] in AFTER_LAYERS and count > 0)
        parts["/".join(map(str, path))] = trained
    return unflatten(parts, "/")


def held(params: Params, parts: Params | None) -> Params:
    """The same parameters, through which no gradient reaches what is not trained; the compiler
    leaves out what only that would need.
    """

    def hold(trained: Any, value: jax.Array) -> jax.Array:
        if np.all(trained):
            return value
        if not np.any(trained):
            return jax.lax.stop_gradient(value)
        return jnp.stack(
            [value[layer] if one else jax.lax.stop_gradient(value[layer]) for layer, one in enumerate(trained)]
        )

    return params if parts is None else jax.tree.map(hold, parts, params)


def only_trained(updates: Params, parts: Params | None) -> Params:
    """Updates that are 0 for what is not trained, weight decay included."""

    def keep(trained: Any, value: jax.Array) -> jax.Array:
        mask = np.reshape(np.asarray(trained), np.shape(trained) + (1,) * (value.ndim - np.ndim(trained)))
        return value if np.all(trained) else jnp.where(mask, value, 0)

    return updates if parts is None else jax.tree.map(keep, parts, updates)
