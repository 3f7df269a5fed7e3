"""Forms of weight decay: where the decayed parameter enters the update."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from zoo.models.functional import Params
from zoo.training.optimization.schedules import Schedule, Values

COUPLED = "coupled"
"""The form that adds to the gradient; the others add to the direction."""

Share = Callable[[Int[Array, ""]], Float[Array, ""]]
"""Number of updates before -> factor on the decay."""


class ScheduledDecayState(NamedTuple):
    """The number of updates."""

    count: Int[Array, ""]


def weight_decay(
    form: str, values: Values, decayed: Params | None, share: Share | None = None
) -> optax.GradientTransformation:
    """Returns the transformation that adds the decay to the gradient or to the direction.

    With the parameter W, its direction u, the rate r (its peak R) and the decay d, an update is

    * decoupled: W <- W - r (u + d W) (Loshchilov & Hutter 2019, as PyTorch and optax have it);
    * coupled: d W is added to the gradient that the update rule sees, the gradient of d |W|^2 / 2;
    * independent: W <- W - r u - (r / R) d W: the decay follows the schedule and not the peak
      (Loshchilov & Hutter 2019, algorithm 2; Wortsman et al. 2024, section 3.2.2);
      A group's `rate_factor` scales both terms;
    * cautious: W <- W - r (u + d W [u W >= 0]): only where the update shrinks the parameter as well
      (Chen et al. 2025).

    Args:
        form: one of these names.
        values: fields as they hold for these parameters.
        decayed: which parameters are decayed; None for all.
        share: of `decay_share`: the decay is multiplied by it at every update; None for a constant.
    """
    decay = values["optimizer.weight_decay"]
    if form == "independent":
        decay = decay / values["optimizer.learning_rate"]
    added = _cautious if form == "cautious" else _plain
    if share is not None:
        stage = _scheduled(added, decay, share)
    elif form == "cautious":
        stage = optax.stateless(partial(jax.tree.map, partial(added, decay)))
    else:
        return optax.add_decayed_weights(decay, mask=decayed)
    return stage if decayed is None else optax.masked(stage, decayed)


def decay_share(static: Values, schedule: Schedule, values: Values) -> Share | None:
    """Returns what `optimizer.weight_decay_schedule` multiplies the decay by; None for a constant.

    At update t of T, from 1, "linear" is 1 - (t - 1) / T, and "rate" r / R, the scheduled learning
    rate over its peak.
    """
    kind, steps = static["optimizer.weight_decay_schedule"], static["training.steps"]
    if kind == "linear":
        return lambda count: 1 - count / steps
    return (lambda count: schedule(count) / values["optimizer.learning_rate"]) if kind == "rate" else None


def _scheduled(
    added: Callable[[Array, Array, Array], Array], decay: float | Float[Array, ""], share: Share
) -> optax.GradientTransformation:
    def init(params: Params) -> ScheduledDecayState:
        del params
        return ScheduledDecayState(jnp.zeros((), jnp.int32))

    def update(
        directions: Params, state: ScheduledDecayState, params: Params | None = None
    ) -> tuple[Params, ScheduledDecayState]:
        current = decay * share(state.count)
        return jax.tree.map(partial(added, current), directions, params), ScheduledDecayState(state.count + 1)

    return optax.GradientTransformation(init, update)


def _plain(
    decay: float | Float[Array, ""], direction: Float[Array, "..."], parameter: Float[Array, "..."]
) -> Float[Array, "..."]:
    return direction + decay * parameter


def _cautious(
    decay: float | Float[Array, ""], direction: Float[Array, "..."], parameter: Float[Array, "..."]
) -> Float[Array, "..."]:
    return direction + decay * jnp.where(direction * parameter >= 0, parameter, 0)
