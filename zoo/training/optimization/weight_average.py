"""An exponential moving average of the parameters, kept beside them and evaluated with them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from zoo.models.functional import Params

STAGE = "ema"


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

    def init(params: Params) -> WeightAverageState:
        return WeightAverageState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def update(
        updates: Params, state: WeightAverageState, params: Params | None = None
    ) -> tuple[Params, WeightAverageState]:
        count = state.count + 1
        # 1 - (1 - 1/h)^t without the loss of digits where h is large.
        weight = 1 / (horizon * -jnp.expm1(count * jnp.log1p(-1 / horizon)))
        average = jax.tree.map(
            lambda mean, before, change: mean + weight * (before + change - mean), state.average, params, updates
        )
        return updates, WeightAverageState(count, average)

    return optax.GradientTransformation(init, update)


def averaged(state: dict[str, Any]) -> dict[str, Any]:
    """Returns a training state with the average in the place of the parameters."""
    return state | {"params": state["optimizer"][STAGE].average}
