"""Two averages of the parameters, each also evaluated: an exponential moving average, and the mean
over the last updates.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.config.kinds.schedule_kinds import tail_start
from zoo.models.functional import Params
from zoo.nested import flatten

MOVING, TAIL = "ema", "tail"
"""Names of the stages, and of the scores: eval/ema/loss, eval/tail/loss."""


class WeightAverageState(NamedTuple):
    """The number of updates, and the average of the parameters after each of them."""

    count: Int[Array, ""]
    average: Params


def weight_average(horizon: int | Float[Array, ""]) -> optax.GradientTransformation:
    """Returns a stage after all others that averages the parameters and leaves the updates alone.

    With the parameters W_t after update t and the horizon h:

        E_t = E_{t-1} + w_t (W_t - E_{t-1}),  w_t = (1/h) / (1 - (1 - 1/h)^t)

    This is the moving average of decay 1 - 1/h with the correction of its bias: the initial values
    have no weight, and up to about h updates all W count nearly alike (Polyak & Juditsky 1992;
    Kingma & Ba 2015, section 7.2).
    """
    # 1 - (1 - 1/h)^t without the loss of digits where h is large.
    return _average(lambda count: 1 / (horizon * -jnp.expm1(count * jnp.log1p(-1 / horizon))))


def tail_average(start: int) -> optax.GradientTransformation:
    """Returns a stage after all others that averages the parameters after each update from number
    `start` + 1 on, all alike, and leaves the updates alone.

        E_t = E_{t-1} + (W_t - E_{t-1}) / (t - start),  t > start

    This is averaging of the tail of stochastic gradient descent (Rakhlin et al. 2012, alpha-suffix
    averaging; Izmailov et al. 2018, from the checkpoint of update `start`).
    """
    return _average(lambda count: jnp.where(count > start, 1 / jnp.maximum(count - start, 1), 0))


def _average(weight: Callable[[Int[Array, ""]], Float[Array, ""]]) -> optax.GradientTransformation:
    """Returns a stage that keeps E_t = E_{t-1} + w_t (W_t - E_{t-1}), given w_t as a function of t."""

    def init(params: Params) -> WeightAverageState:
        return WeightAverageState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def update(
        updates: Params, state: WeightAverageState, params: Params | None = None
    ) -> tuple[Params, WeightAverageState]:
        count = state.count + 1
        share = weight(count)
        average = jax.tree.map(
            lambda mean, before, change: mean + share * (before + change - mean), state.average, params, updates
        )
        return updates, WeightAverageState(count, average)

    return optax.GradientTransformation(init, update)


def averages(config: ResolvedConfig, step: int) -> tuple[str, ...]:
    """Returns the names of the averages that a run holds after `step` updates: those of something."""
    moving = bool(config.optimizer.ema_steps) and step > 0
    tail = bool(config.optimizer.tail_average) and step > tail_start(flatten(config))
    return (MOVING,) * moving + (TAIL,) * tail


def averaged(state: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns a training state with the average of that name in the place of the parameters."""
    return state | {"params": state["optimizer"][name].average}
