"""Forms of weight decay: where the decayed parameter enters the update."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from zoo.models.functional import Params
from zoo.training.optimization.schedules import Values

BEFORE_THE_RULE = "coupled"
"""The form that adds to the gradient; the others add to the direction."""


def weight_decay(form: str, values: Values, decayed: Params | None) -> optax.GradientTransformation:
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
    """
    decay = values["optimizer.weight_decay"]
    if form == "independent":
        decay = decay / values["optimizer.learning_rate"]
    if form == "cautious":
        added = optax.stateless(partial(jax.tree.map, partial(_cautious, decay)))
        return added if decayed is None else optax.masked(added, decayed)
    return optax.add_decayed_weights(decay, mask=decayed)


def _cautious(
    decay: float | Float[Array, ""], direction: Float[Array, "..."], parameter: Float[Array, "..."]
) -> Float[Array, "..."]:
    return direction + decay * jnp.where(direction * parameter >= 0, parameter, 0)
