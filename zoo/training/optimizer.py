"""Optimizers and learning-rate schedules, built from optax by name."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig, traced_hyperparameters
from zoo.models.functional import Params
from zoo.nested import flatten

Schedule = Callable[[Int[Array, ""]], Float[Array, ""]]
Hyperparameters = Mapping[str, float | Float[Array, ""]]
"""Values of fields by path, e.g. "optimizer.learning_rate" (`zoo.config.hyperparameters`)."""


def make_schedule(config: ResolvedConfig, hyperparameters: Hyperparameters | None = None) -> Schedule:
    """Returns the learning rate as a function of the number of updates done before.

    A linear warm-up reaches the peak at update number `warmup_steps`. `schedule.kind` names what
    follows; a decay ends at `final_fraction` of the peak with the last update. The schedules of
    optax do not accept traced hyperparameters.

    Args:
        config: the whole resolved config.
        hyperparameters: values that replace the config's, traced in a compiled program.
    """
    schedule, steps = config.schedule, config.training.steps
    values = traced_hyperparameters(flatten(config)) | dict(hyperparameters or {})
    peak, warmup, final = (
        values[path] for path in ("optimizer.learning_rate", "schedule.warmup_steps", "schedule.final_fraction")
    )
    remaining = jnp.maximum(1, steps - warmup)
    decay = jnp.minimum(max(1, round(schedule.decay_fraction * steps)), remaining)

    def rate(count: jax.Array) -> jax.Array:
        # Counting updates from 1 gives the first one a rate above zero.
        update = count + 1
        since = jnp.clip(update - warmup, 0, remaining)
        after = {
            "constant": lambda: jnp.ones(()),
            "cosine": lambda: final + (1 - final) * 0.5 * (1 + jnp.cos(jnp.pi * since / remaining)),
            "linear": lambda: 1 - (1 - final) * since / remaining,
            "inverse_sqrt": lambda: jnp.sqrt(jnp.maximum(warmup, 1) / jnp.maximum(update, jnp.maximum(warmup, 1))),
            "wsd": lambda: 1 - (1 - final) * jnp.maximum(0, since - (remaining - decay)) / decay,
        }[schedule.kind]()
        return peak * jnp.where(update < warmup, update / jnp.maximum(warmup, 1), after)

    return rate


def make_optimizer(
    config: ResolvedConfig, unrolled_ndim: Params, hyperparameters: Hyperparameters | None = None
) -> optax.GradientTransformation:
    """Builds the optimizer that `optimizer.kind` names, between gradient clipping and the schedule.

    Args:
        config: the whole resolved config.
        unrolled_ndim: number of dimensions of every parameter within one layer; weight decay
            applies to those with two or more.
        hyperparameters: as in `make_schedule`. The layout of the state does not depend on them.
    """
    optimizer = config.optimizer
    values = traced_hyperparameters(flatten(config)) | dict(hyperparameters or {})
    beta1, beta2, epsilon, clip_norm, weight_decay = (
        values[f"optimizer.{name}"] for name in ("beta1", "beta2", "epsilon", "clip_norm", "weight_decay")
    )
    update = {"adamw": lambda: optax.scale_by_adam(beta1, beta2, epsilon)}[optimizer.kind]()
    stages = []
    if optimizer.clip_norm:
        stages.append(("clip", optax.clip_by_global_norm(clip_norm)))
    stages.append((optimizer.kind, update))
    if optimizer.weight_decay:
        decays = jax.tree.map(lambda ndim: ndim >= 2, unrolled_ndim)
        stages.append(("decay", optax.add_decayed_weights(weight_decay, mask=decays)))
    stages.append(("rate", optax.scale_by_learning_rate(make_schedule(config, hyperparameters))))
    return optax.named_chain(*stages)
