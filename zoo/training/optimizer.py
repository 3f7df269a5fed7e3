"""Optimizers and learning-rate schedules, built from optax by name."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from zoo.config import ResolvedConfig
from zoo.models.functional import Params

Schedule = Callable[[jax.Array], jax.Array]


def make_schedule(config: ResolvedConfig) -> Schedule:
    """Returns the learning rate as a function of the number of updates done before.

    A linear warm-up reaches the peak at update number `warmup_steps`; what follows is named by `schedule.kind` and, where it
    decays, ends at `final_fraction` of the peak with the last update.
    """
    schedule, peak, steps = config.schedule, config.optimizer.learning_rate, config.training.steps
    warmup, last = schedule.warmup_steps, schedule.final_fraction * peak
    remaining = max(1, steps - warmup)
    decay = max(1, round(schedule.decay_fraction * steps))
    after = {
        "constant": lambda: optax.constant_schedule(peak),
        "cosine": lambda: optax.cosine_decay_schedule(peak, remaining, alpha=schedule.final_fraction),
        "linear": lambda: optax.linear_schedule(peak, last, remaining),
        "inverse_sqrt": lambda: lambda count: peak * (max(warmup, 1) / jnp.maximum(count + warmup, 1)) ** 0.5,
        "wsd": lambda: optax.linear_schedule(peak, last, min(decay, remaining), transition_begin=max(0, remaining - decay)),
    }[schedule.kind]()
    whole = optax.join_schedules([optax.linear_schedule(0.0, peak, warmup), after], [warmup]) if warmup else after
    # Update number 1 comes after 0 updates; counting from 1 gives the first update a rate above zero.
    return lambda count: whole(count + 1)


def make_optimizer(config: ResolvedConfig, unrolled_ndim: Params) -> optax.GradientTransformation:
    """Builds the optimizer that `optimizer.kind` names, with clipping before and the schedule after it.

    Args:
        config: the whole resolved config.
        unrolled_ndim: number of dimensions of every parameter within a layer; those with two or more decay.
    """
    optimizer = config.optimizer
    update = {
        "adamw": lambda: optax.scale_by_adam(optimizer.beta1, optimizer.beta2, optimizer.epsilon),
    }[optimizer.kind]()
    stages = []
    if optimizer.clip_norm:
        stages.append(("clip", optax.clip_by_global_norm(optimizer.clip_norm)))
    stages.append((optimizer.kind, update))
    if optimizer.weight_decay:
        decays = jax.tree.map(lambda ndim: ndim >= 2, unrolled_ndim)
        stages.append(("decay", optax.add_decayed_weights(optimizer.weight_decay, mask=decays)))
    stages.append(("rate", optax.scale_by_learning_rate(make_schedule(config))))
    return optax.named_chain(*stages)
