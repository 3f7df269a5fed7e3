"""Schedule-free learning: an average takes the place of a schedule (Defazio et al. 2024)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from zoo.models.functional import Params
from zoo.training.optimization.schedules import Schedule

STAGE = "schedule_free"


class ScheduleFreeState(NamedTuple):
    """State of the schedule-free average; the average x itself is the parameters.

    Attributes:
        count: number of updates.
        weights: sum of the squared rates.
        offset: z - x, from the average x to the iterate z of the inner rule.
        inner: state of the inner rule.
    """

    count: Int[Array, ""]
    weights: Float[Array, ""]
    offset: Params
    inner: optax.OptState


def schedule_free(
    inner: optax.GradientTransformation, schedule: Schedule, beta: float | Float[Array, ""]
) -> optax.GradientTransformation:
    """Returns the schedule-free form of an optimizer without momentum (Defazio et al. 2024,
    algorithm 1).

    The gradient g is that at y = (1 - beta) z + beta x (`gradient_point`). With the rate r and the
    step that `inner` makes of it, -r (u + decay y):

        z <- z - r (u + decay y)
        x <- (1 - c) x + c z,  c = r^2 / sum of r^2 so far

    The parameters that are stored and evaluated are x.

    Args:
        inner: update rule, decay and rate.
        schedule: the rate, a warm-up.
        beta: share of the average in the point at which the gradient is taken.
    """

    def init(params: Params) -> ScheduleFreeState:
        offset = jax.tree.map(jnp.zeros_like, params)
        return ScheduleFreeState(jnp.zeros((), jnp.int32), jnp.zeros(()), offset, inner.init(params))

    def update(
        gradient: Params, state: ScheduleFreeState, params: Params | None = None
    ) -> tuple[Params, ScheduleFreeState]:
        point = between(params, state.offset, beta)
        steps, after = inner.update(gradient, state.inner, point)
        weight = jnp.square(schedule(state.count)).astype(jnp.float32)
        weights = state.weights + weight
        share = weight / weights
        moved = jax.tree.map(jnp.add, state.offset, steps)
        updates = jax.tree.map(lambda leaf: share * leaf, moved)
        offset = jax.tree.map(jnp.subtract, moved, updates)
        return updates, ScheduleFreeState(state.count + 1, weights, offset, after)

    return optax.GradientTransformation(init, update)


def between(average: Params, offset: Params, beta: float | Float[Array, ""]) -> Params:
    """Returns y = (1 - beta) z + beta x of x and z - x."""
    return jax.tree.map(lambda x, to_z: x + (1 - beta) * to_z, average, offset)


def gradient_point(state: dict[str, Any], beta: float | Float[Array, ""]) -> Params:
    """Returns the parameters at which the gradient of an update is taken.

    Args:
        state: a training state. Without the stage of `schedule_free` these are its parameters.
        beta: as of `schedule_free`.
    """
    if not isinstance(state["optimizer"], dict) or STAGE not in state["optimizer"]:
        return state["params"]
    return between(state["params"], state["optimizer"][STAGE].offset, beta)
