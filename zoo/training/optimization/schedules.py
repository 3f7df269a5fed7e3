"""Learning-rate schedules: the functions of the kinds of `schedule.kind`.

Each returns the learning rate after the warm-up, as a share of the peak. What it returns for an
update of the warm-up is not used.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig, traced_hyperparameters
from zoo.config.kinds import SCHEDULE_KINDS
from zoo.nested import flatten

Schedule = Callable[[Int[Array, ""]], Float[Array, ""]]
Values = Mapping[str, Any]
"""Values of fields by path, e.g. "optimizer.learning_rate". Those that are traced (`Field.traced`) are
floats or, in a compiled program, traced arrays; the others are as in the config."""


class ScheduleStep(NamedTuple):
    """Arguments of a schedule. All but `steps` may be traced, so use `jax.numpy` and no `if`.

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


def polynomial(step: ScheduleStep) -> Float[Array, ""]:
    """Returns f + (1 - f) (1 - since/remaining)^p, with f = `final_fraction` and p = `power`."""
    final = step.values["schedule.final_fraction"]
    return final + (1 - final) * (1 - step.since / step.remaining) ** step.values["schedule.power"]


def inverse_sqrt(step: ScheduleStep) -> Float[Array, ""]:
    """Returns sqrt(warmup/update) (Vaswani et al. 2017, section 5.3), and 1 up to update `warmup`;
    without warm-up, of 1 update.
    """
    return jnp.sqrt(jnp.maximum(step.warmup, 1) / jnp.maximum(step.update, jnp.maximum(step.warmup, 1)))


def wsd(step: ScheduleStep) -> Float[Array, ""]:
    """Returns 1, then 1 - (1 - f) s(k/d) at update k of the last d, with f = `final_fraction` and d
    the share `decay_fraction` of all updates, at most those after the warm-up.

    s(x) is x (Hu et al. 2024), or sqrt(x) with `decay_shape` "sqrt" (Hägele et al. 2024, section 3).
    """
    fraction, final = (step.values[f"schedule.{name}_fraction"] for name in ("decay", "final"))
    decay = jnp.minimum(max(1, round(fraction * step.steps)), step.remaining)
    share = jnp.maximum(0, step.since - (step.remaining - decay)) / decay
    return 1 - (1 - final) * (jnp.sqrt(share) if step.values["schedule.decay_shape"] == "sqrt" else share)


def make_schedule(config: ResolvedConfig, hyperparameters: Values | None = None) -> Schedule:
    """Returns the learning rate as a function of the number of updates done before.

    A linear warm-up reaches the peak at update number `warmup_steps`; with `schedule.hold` the rate
    is at the peak until then. `schedule.kind` names what follows. The schedules of
    optax do not accept traced hyperparameters.

    Args:
        config: the whole resolved config.
        hyperparameters: values that replace the config's, traced in a compiled program.
    """
    return schedule_of(field_values(flatten(config), hyperparameters))


def schedule_of(values: Values) -> Schedule:
    """Returns the schedule of `make_schedule` from the values of all fields."""
    kind, steps = values["schedule.kind"], values["training.steps"]
    peak, warmup = values["optimizer.learning_rate"], values["schedule.warmup_steps"]
    share, remaining = SCHEDULE_KINDS.code_of(kind), jnp.maximum(1, steps - warmup)
    held = kind == "inverse_sqrt" and values["schedule.hold"]

    def rate(count: jax.Array) -> jax.Array:
        # Counting updates from 1 gives the first one a rate above zero.
        update = count + 1
        since = jnp.clip(update - warmup, 0, remaining)
        after = share(ScheduleStep(update, warmup, steps, since, remaining, values))
        rising = 1.0 if held else update / jnp.maximum(warmup, 1)
        return peak * jnp.where(update < warmup, rising, after)

    return rate


def field_values(static: Values, hyperparameters: Values | None) -> dict[str, Any]:
    """Returns the values of all fields, those of groups too; the given ones replace the config's."""
    return static | traced_hyperparameters(static) | dict(hyperparameters or {})
