"""Scores of all token ids at every token of a text."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.errors import ConfigError
from zoo.layers.context import Context
from zoo.models.functional import Params, Stats, split
from zoo.models.head import logits
from zoo.objectives.objective import beyond_position_table


def token_scores(
    config: ResolvedConfig, model: nnx.Module, params: Params, stats: Stats, rows: Int[np.ndarray, "B T"]
) -> Float[np.ndarray, "B T V"]:
    """Returns the float32 scores of all ids at each token: of a decoder for the next token, of an
    encoder for the token itself. To a prefix decoder the whole text is its prefix, in which every
    token sees the others: the last one alone predicts what it does not see.

    Args:
        config: resolved.
        model, params, stats: the abstract model and its values.
        rows: what the model reads, without padding.

    Raises:
        ConfigError: the model has no head for tokens, or reads and writes different texts; or the rows
            are longer than its table of positions.
    """
    without = (*TASKS, *OBJECTIVE_KINDS.having("replaced"))
    if config.objective.kind in without or config.model.architecture not in ("decoder", "encoder"):
        raise ConfigError(
            f"objective.kind={config.objective.kind} of model.architecture={config.model.architecture} "
            "gives no scores of single tokens; predict is for tasks, generate for encoder-decoders"
        )
    if problem := beyond_position_table(config.model, model, rows.shape[1]):
        raise ConfigError(f"a text of {rows.shape[1]} tokens is too long: {problem}; give a shorter one")
    causal = config.model.architecture == "decoder"
    prefix = rows.shape[1] if config.objective.kind in OBJECTIVE_KINDS.having("prefix") else 0
    return np.asarray(_scores(split(model)[0], causal, prefix, params, stats, rows))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _scores(graph: nnx.GraphDef, causal: bool, prefix: int, params: Params, stats: Any, rows: Array) -> Array:
    model = nnx.merge(graph, params, stats)
    context = Context(jnp.arange(rows.shape[1])[None], causal=causal, in_order=True, prefix=prefix)
    return logits(model.prediction(model(rows, context), context)).astype(jnp.float32)
