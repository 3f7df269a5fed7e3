"""Optimizers and learning-rate schedules, built from optax by name, for groups of parameters."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from zoo.config import GROUPS, REST, ResolvedConfig, traced_hyperparameters
from zoo.config.scopes import scopes_in, values_in
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


def adamw(values: Hyperparameters) -> optax.GradientTransformation:
    """Returns Adam (Kingma & Ba 2015); its decay is decoupled (Loshchilov & Hutter 2019)."""
    return optax.scale_by_adam(*(values[f"optimizer.{name}"] for name in ("beta1", "beta2", "epsilon")))


OPTIMIZERS: Mapping[str, Callable[[Hyperparameters], optax.GradientTransformation]] = {"adamw": adamw}
"""Update rules by `optimizer.kind`: gradient to direction. Decay and rate are applied after them."""


def make_optimizer(
    config: ResolvedConfig,
    unrolled_ndim: Params,
    hyperparameters: Hyperparameters | None = None,
    labels: Params | None = None,
) -> optax.GradientTransformation:
    """Builds clipping, and after it the update rule, weight decay and learning rate of each group.

    The global norm is that of all parameters. Without groups there is one rule for everything.

    Args:
        config: the whole resolved config.
        unrolled_ndim: number of dimensions of every parameter within one layer; weight decay
            applies to those with two or more, and in a group that sets its own weight decay to all.
        hyperparameters: as in `make_schedule`. The layout of the state does not depend on them.
        labels: name of every parameter's group (`zoo.models.parameter_groups`); needed only where
            `optimizer.groups` names any.
    """
    static = flatten(config)
    values = traced_hyperparameters(static) | dict(hyperparameters or {})
    schedule = make_schedule(config, hyperparameters)
    matrices = jax.tree.map(lambda ndim: ndim >= 2, unrolled_ndim)
    stages = []
    if static["optimizer.clip_norm"]:
        stages.append(("clip", optax.clip_by_global_norm(values["optimizer.clip_norm"])))
    if not static["optimizer.groups"]:
        return optax.named_chain(*stages, *_rule(static, values, schedule, matrices))
    rules, scopes = {}, scopes_in(static)
    for name in (*static["optimizer.groups"], REST):
        scope = f"{GROUPS}.{name}"
        decayed = None if "optimizer.weight_decay" in scopes.get(scope, {}) else matrices
        rules[name] = optax.named_chain(*_rule(values_in(scope, static), values_in(scope, values), schedule, decayed))
    return optax.named_chain(*stages, ("groups", optax.partition(rules, labels)))


def _rule(
    static: Mapping[str, Any], values: Hyperparameters, schedule: Schedule, decayed: Params | None
) -> list[tuple[str, optax.GradientTransformation]]:
    """Returns the named stages after clipping, for all parameters or for a group.

    Args:
        static: fields by path as they hold for these parameters; a 0 removes a stage.
        values: the numbers among them, traced in a compiled program.
        schedule: the learning rate of the optimizer.
        decayed: which parameters weight decay applies to; None for all.
    """
    stages = [(static["optimizer.kind"], OPTIMIZERS[static["optimizer.kind"]](values))]
    if static["optimizer.weight_decay"]:
        stages.append(("decay", optax.add_decayed_weights(values["optimizer.weight_decay"], mask=decayed)))
    factor = values.get("optimizer.rate_factor")
    rate = schedule if factor is None else lambda count: factor * schedule(count)
    stages.append(("rate", optax.scale_by_learning_rate(rate)))
    return stages
