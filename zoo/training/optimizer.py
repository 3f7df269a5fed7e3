"""Optimizers and learning-rate schedules, built from optax by name, for groups of parameters."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from zoo.config import GROUPS, REST, ResolvedConfig, traced_hyperparameters
from zoo.config.scopes import scopes_in, values_in
from zoo.models.functional import Params
from zoo.nested import flatten

Schedule = Callable[[Int[Array, ""]], Float[Array, ""]]
Values = Mapping[str, Any]
"""Values of fields by path, e.g. "optimizer.learning_rate". Those that are traced (`Field.traced`) are
floats or, in a compiled program, traced arrays; the others are as in the config."""


class ScheduleStep(NamedTuple):
    """What a schedule computes from. All but `steps` may be traced, so use `jax.numpy` and no `if`.

    Attributes:
        update: number of the update, from 1.
        warmup: number of updates of the warm-up.
        steps: number of updates of the run.
        since: updates after the warm-up up to and including this one; 0 during the warm-up.
        remaining: updates after the warm-up until the last, at least 1; `since / remaining` grows
            from 0 to 1.
        values: all fields, e.g. `values["schedule.final_fraction"]`.
    """

    update: Int[Array, ""]
    warmup: float | Float[Array, ""]
    steps: int
    since: Float[Array, ""]
    remaining: Float[Array, ""]
    values: Values


def constant(step: ScheduleStep) -> Float[Array, ""]:
    """Returns 1."""
    del step
    return jnp.ones(())


def cosine(step: ScheduleStep) -> Float[Array, ""]:
    """Returns f + (1 - f) (1 + cos(pi since/remaining)) / 2, with f = `final_fraction`."""
    final = step.values["schedule.final_fraction"]
    return final + (1 - final) * 0.5 * (1 + jnp.cos(jnp.pi * step.since / step.remaining))


def linear(step: ScheduleStep) -> Float[Array, ""]:
    """Returns 1 - (1 - f) since/remaining, with f = `final_fraction`."""
    return 1 - (1 - step.values["schedule.final_fraction"]) * step.since / step.remaining


def inverse_sqrt(step: ScheduleStep) -> Float[Array, ""]:
    """Returns sqrt(warmup/update) (Vaswani et al. 2017, section 5.3); without warm-up, of 1 update."""
    return jnp.sqrt(jnp.maximum(step.warmup, 1) / jnp.maximum(step.update, jnp.maximum(step.warmup, 1)))


def wsd(step: ScheduleStep) -> Float[Array, ""]:
    """Returns 1, then 1 - (1 - f) k/d at update k of the last d (Hu et al. 2024), with f =
    `final_fraction` and d the share `decay_fraction` of all updates, at most those after the warm-up.
    """
    fraction, final = (step.values[f"schedule.{name}_fraction"] for name in ("decay", "final"))
    decay = jnp.minimum(max(1, round(fraction * step.steps)), step.remaining)
    return 1 - (1 - final) * jnp.maximum(0, step.since - (step.remaining - decay)) / decay


SCHEDULES: dict[str, Callable[[ScheduleStep], Float[Array, ""]]] = {
    "constant": constant,
    "cosine": cosine,
    "linear": linear,
    "inverse_sqrt": inverse_sqrt,
    "wsd": wsd,
}
"""Learning rate after the warm-up, as a share of the peak, by `schedule.kind`. What a schedule returns
for an update of the warm-up is not used."""


def make_schedule(config: ResolvedConfig, hyperparameters: Values | None = None) -> Schedule:
    """Returns the learning rate as a function of the number of updates done before.

    A linear warm-up reaches the peak at update number `warmup_steps`. `schedule.kind` names what
    follows (`SCHEDULES`). The schedules of optax do not accept traced hyperparameters.

    Args:
        config: the whole resolved config.
        hyperparameters: values that replace the config's, traced in a compiled program.
    """
    values, share = _values(config, hyperparameters), SCHEDULES[config.schedule.kind]
    peak, warmup = values["optimizer.learning_rate"], values["schedule.warmup_steps"]
    remaining = jnp.maximum(1, config.training.steps - warmup)

    def rate(count: jax.Array) -> jax.Array:
        # Counting updates from 1 gives the first one a rate above zero.
        update = count + 1
        since = jnp.clip(update - warmup, 0, remaining)
        after = share(ScheduleStep(update, warmup, config.training.steps, since, remaining, values))
        return peak * jnp.where(update < warmup, update / jnp.maximum(warmup, 1), after)

    return rate


def _values(config: ResolvedConfig, hyperparameters: Values | None) -> dict[str, Any]:
    """Returns the values of all fields, those of groups too; the given ones replace the config's."""
    static = flatten(config)
    return static | traced_hyperparameters(static) | dict(hyperparameters or {})


def adamw(values: Values) -> optax.GradientTransformation:
    """Returns Adam (Kingma & Ba 2015); its decay is decoupled (Loshchilov & Hutter 2019)."""
    return optax.scale_by_adam(*(values[f"optimizer.{name}"] for name in ("beta1", "beta2", "epsilon")))


OPTIMIZERS: dict[str, Callable[[Values], optax.GradientTransformation]] = {"adamw": adamw}
"""Update rules by `optimizer.kind`: functions of the values of all fields, as they hold for a group of
parameters, that return what turns gradients into directions. Decay and rate are applied after it."""


def make_optimizer(
    config: ResolvedConfig, unrolled_ndim: Params, hyperparameters: Values | None = None, labels: Params | None = None
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
    static, values = flatten(config), _values(config, hyperparameters)
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
    static: Values, values: Values, schedule: Schedule, decayed: Params | None
) -> list[tuple[str, optax.GradientTransformation]]:
    """Returns the named stages after clipping, for all parameters or for a group.

    Args:
        static: fields by path as they hold for these parameters; a 0 removes a stage.
        values: the same, with the traced numbers of a compiled program.
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
