"""Schedules of the first moment's decay, and Adam with one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from zoo.models.functional import Params
from zoo.training.optimization.schedules import Values

WARMUP, COOLDOWN, START = (f"optimizer.momentum_{name}" for name in ("warmup", "cooldown", "start"))

Decay = Callable[[Int[Array, ""]], Float[Array, ""]]
"""Number of updates before -> decay of the first moment."""


class ScheduledState(NamedTuple):
    """The number of updates, and the state of the rule."""

    count: Int[Array, ""]
    inner: optax.OptState


class ScheduledAdamState(NamedTuple):
    """The number of updates, both moments, and the product of all decays of the first so far."""

    count: Int[Array, ""]
    mu: Params
    nu: Params
    product: Float[Array, ""]


def with_static_zeros(static: Values, values: Values) -> dict[str, Any]:
    """Returns values in which the length of a warm-up or cool-down that is 0 is the number 0, not a
    traced one, so that a rule can leave it out of the program.
    """
    return dict(values) | {path: 0 for path in (WARMUP, COOLDOWN) if not static[path]}


def momentum_decay(values: Values, path: str) -> Decay | None:
    """Returns the decay of the first moment by the number of updates before; None for a constant.

    With the value b of its field, b0 = `momentum_start`, N = `momentum_warmup` and C =
    `momentum_cooldown`, after t of T updates it is

        b0 + s (b - b0),  s = min(1, t / N, (T - t) / C)

    where a length of 0 leaves its part out (modded-nanogpt, Muon: N = 300, C = 50, from 0.85 to 0.95).

    Args:
        values: fields as they hold for the parameters, of `with_static_zeros`.
        path: field of the decay, e.g. "optimizer.beta1".
    """
    rises, falls = (not (isinstance(values[name], int | float) and values[name] == 0) for name in (WARMUP, COOLDOWN))
    if not rises and not falls:
        return None
    start, steps = values[START], values["training.steps"]

    def decay(count: Int[Array, ""]) -> Float[Array, ""]:
        share = jnp.ones(())
        if rises:
            share = jnp.minimum(share, count / jnp.maximum(values[WARMUP], 1))
        if falls:
            share = jnp.minimum(share, (steps - count) / jnp.maximum(values[COOLDOWN], 1))
        return (1 - share) * start + share * values[path]

    return decay


def scheduled(
    rule: Callable[[float | Float[Array, ""]], optax.GradientTransformation], decay: Decay
) -> optax.GradientTransformation:
    """Returns a rule without bias correction whose decay changes.

    Args:
        rule: decay -> the rule, with a state that does not depend on it.
        decay: of `momentum_decay`.
    """

    def init(params: Params) -> ScheduledState:
        return ScheduledState(jnp.zeros((), jnp.int32), rule(0.0).init(params))

    def update(gradient: Params, state: ScheduledState, params: Params | None = None) -> tuple[Params, ScheduledState]:
        directions, inner = rule(decay(state.count)).update(gradient, state.inner, params)
        return directions, ScheduledState(state.count + 1, inner)

    return optax.GradientTransformation(init, update)


def adam(values: Values, nesterov: bool = False) -> optax.GradientTransformation:
    """Returns Adam, with `nesterov` Dozat's; its state has both moments as `mu` and `nu`.

    With a decay b_t of the first moment that changes, the weights of the gradients in m add up to
    1 - b_1 ... b_t, by which m is divided in the place of 1 - beta1^t (Kingma & Ba 2015, section 3;
    Dozat 2016, algorithm 2, has the same product):

        m <- b_t m + (1 - b_t) g
        direction = m / (1 - b_1 ... b_t) / (sqrt(v / (1 - beta2^t)) + epsilon)

    and with `nesterov` b_{t+1} m / (1 - b_1 ... b_{t+1}) + (1 - b_t) g / (1 - b_1 ... b_t) for the
    first quotient.
    """
    beta1, beta2, epsilon = (values[f"optimizer.{name}"] for name in ("beta1", "beta2", "epsilon"))
    decay = momentum_decay(values, "optimizer.beta1")
    if decay is None:
        return optax.scale_by_adam(beta1, beta2, epsilon, nesterov=nesterov)

    def init(params: Params) -> ScheduledAdamState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return ScheduledAdamState(jnp.zeros((), jnp.int32), zeros, zeros, jnp.ones(()))

    def update(
        gradient: Params, state: ScheduledAdamState, params: Params | None = None
    ) -> tuple[Params, ScheduledAdamState]:
        del params
        now, following, count = decay(state.count), decay(state.count + 1), state.count + 1
        product = state.product * now
        mu = jax.tree.map(lambda m, g: now * m + (1 - now) * g, state.mu, gradient)
        nu = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * jnp.square(g), state.nu, gradient)

        def direction(m: Array, v: Array, g: Array) -> Array:
            first = m / (1 - product)
            if nesterov:
                first = following * m / (1 - following * product) + (1 - now) * g / (1 - product)
            return first / (jnp.sqrt(v / (1 - beta2**count)) + epsilon)

        return jax.tree.map(direction, mu, nu, gradient), ScheduledAdamState(count, mu, nu, product)

    return optax.GradientTransformation(init, update)
