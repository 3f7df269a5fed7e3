"""Optimizers and learning-rate schedules, built from optax by name."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig, traced_hyperparameters
from zoo.models.functional import Params
from zoo.nested import flatten

Schedule = Callable[[jax.Array], jax.Array]
Numbers = Mapping[str, float | Float[Array, ""]]


def make_schedule(config: ResolvedConfig, numbers: Numbers | None = None) -> Schedule:
    """Returns the learning rate as a function of the number of updates done before.

    A linear warm-up reaches the peak at update number `warmup_steps`; what follows is named by
    `schedule.kind` and, where it decays, ends at `final_fraction` of the peak with the last update.
    The schedules of optax do not take what is an argument of a program.

    Args:
        config: the whole resolved config.
        numbers: values of fields (`zoo.config.hyperparameters`) that are arguments of a program; by
            default the config's.
    """
    schedule, steps = config.schedule, config.training.steps
    numbers = traced_hyperparameters(flatten(config)) | dict(numbers or {})
    peak, warmup, final = (
        numbers[path] for path in ("optimizer.learning_rate", "schedule.warmup_steps", "schedule.final_fraction")
    )
    remaining = jnp.maximum(1, steps - warmup)
    decay = jnp.minimum(max(1, round(schedule.decay_fraction * steps)), remaining)

    def rate(count: jax.Array) -> jax.Array:
        # Update number 1 comes after 0 updates; counting from 1 gives the first update a rate above
        # zero.
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
    config: ResolvedConfig, unrolled_ndim: Params, numbers: Numbers | None = None
) -> optax.GradientTransformation:
    """Builds the optimizer that `optimizer.kind` names, with clipping before and the schedule after
    it.

    Args:
        config: the whole resolved config.
        unrolled_ndim: number of dimensions of every parameter within a layer; those with two or
            more decay.
        numbers: as in `make_schedule`. The state and its meaning do not depend on them.
    """
    optimizer = config.optimizer
    given = traced_hyperparameters(flatten(config)) | dict(numbers or {})
    value = {name: given[f"optimizer.{name}"] for name in ("beta1", "beta2", "epsilon", "clip_norm", "weight_decay")}
    update = {"adamw": lambda: optax.scale_by_adam(value["beta1"], value["beta2"], value["epsilon"])}[optimizer.kind]()
    stages = []
    if optimizer.clip_norm:
        stages.append(("clip", optax.clip_by_global_norm(value["clip_norm"])))
    stages.append((optimizer.kind, update))
    if optimizer.weight_decay:
        decays = jax.tree.map(lambda ndim: ndim >= 2, unrolled_ndim)
        stages.append(("decay", optax.add_decayed_weights(value["weight_decay"], mask=decays)))
    stages.append(("rate", optax.scale_by_learning_rate(make_schedule(config, numbers))))
    return optax.named_chain(*stages)
