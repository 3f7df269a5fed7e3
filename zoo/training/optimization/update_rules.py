"""Update rules of optimizers that treat a matrix element by element: gradients to directions.

A rule is a function of the values of all fields, as they hold for a group of parameters, and of the
traits of all parameters. Decay and rate are applied after what it returns.
"""

from functools import partial

import jax.numpy as jnp
import optax
from jax.tree_util import KeyPath, tree_map_with_path
from jaxtyping import Array, Float, Int

from zoo.models.functional import ParameterTraits, Params
from zoo.training.optimization.momentum import adam, momentum_decay, scheduled
from zoo.training.optimization.per_parameter import layer_axes
from zoo.training.optimization.schedules import Values


def adamw(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns Adam (Kingma & Ba 2015); its decay is decoupled (Loshchilov & Hutter 2019)."""
    del traits
    return adam(values)


def nadamw(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns Adam whose first moment looks ahead (Dozat 2016): at update t, with the gradient g,

    m' = beta1 m / (1 - beta1^(t+1)) + (1 - beta1) g / (1 - beta1^t),  v' = v / (1 - beta2^t)

    and the direction m' / (sqrt(v') + epsilon).
    """
    del traits
    return adam(values, nesterov=True)


def sgd(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns m <- `sgd_momentum` m + g, and g + `sgd_momentum` m with `sgd_nesterov`
    (Sutskever et al. 2013).
    """
    del traits
    momentum, nesterov = _fields(values, "sgd_momentum", "sgd_nesterov")
    decay = momentum_decay(values, "optimizer.sgd_momentum")
    rule = partial(optax.trace, nesterov=nesterov)
    return rule(momentum) if decay is None else scheduled(rule, decay)


def lion(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns sign(`lion_beta1` m + (1 - `lion_beta1`) g), and after it
    m <- `lion_beta2` m + (1 - `lion_beta2`) g (Chen et al. 2023, algorithm 2).
    """
    del traits
    share, momentum = _fields(values, "lion_beta1", "lion_beta2")
    decay = momentum_decay(values, "optimizer.lion_beta2")
    rule = partial(optax.scale_by_lion, share)
    return rule(momentum) if decay is None else scheduled(rule, decay)


def adagrad(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns g / sqrt(s), 0 where s is 0, with s <- s + g^2 from s = `adagrad_initial` on
    (Duchi et al. 2011).
    """
    del traits
    return optax.scale_by_rss(*_fields(values, "adagrad_initial"), eps=0.0)


def ademamix(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns Adam with a second, slow average of the gradients (Pagliardini et al. 2024, section 3):

    m <- beta1 m + (1 - beta1) g,  n <- beta3(t) n + (1 - beta3(t)) g,
    direction = (m / (1 - beta1^t) + alpha(t) n) / (sqrt(v / (1 - beta2^t)) + epsilon)

    Over the first `ademamix_warmup` updates, alpha(t) rises linearly from 0, and beta3(t) from beta1
    so that 1 / log(beta3) is linear in t.
    """
    del traits
    beta1, beta2, epsilon = _fields(values, "beta1", "beta2", "epsilon")
    beta3, alpha, warmup = _fields(values, "ademamix_beta3", "ademamix_alpha", "ademamix_warmup")

    def share(count: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.minimum(1.0, (count + 1) / jnp.maximum(warmup, 1))

    def slow(count: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.exp(1 / ((1 - share(count)) / jnp.log(beta1) + share(count) / jnp.log(beta3)))

    return optax.contrib.scale_by_ademamix(beta1, beta2, b3=slow, alpha=lambda count: alpha * share(count), eps=epsilon)


def adopt(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns ADOPT (Taniguchi et al. 2024, algorithm 2): each gradient is divided by the root of the
    second moment *before* it, clipped, and then averaged.

    m <- beta1 m + (1 - beta1) clip(g / max(sqrt(v), epsilon), t^(1/4))
    v <- beta2 v + (1 - beta2) g^2

    with t the number of updates before; the first one sets v and has the direction 0.
    """
    del traits
    return optax.contrib.scale_by_adopt(*_fields(values, "beta1", "beta2", "epsilon"))


def stable_adamw(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns Adam with update clipping (Wortsman et al. 2023, algorithm 2): with g the gradient of a
    parameter of one layer and v' its second moment, corrected for its bias,

    direction = Adam / max(1, sqrt(mean(g^2 / max(v', epsilon^2))))

    so a second moment that lags behind the gradients makes the step smaller.
    """
    beta2, epsilon = _fields(values, "beta2", "epsilon")
    rule, axes_of = adam(values), layer_axes(traits)

    def update(gradient: Params, state: optax.OptState, params: Params | None = None) -> tuple[Params, optax.OptState]:
        directions, state = rule.update(gradient, state, params)
        correction = 1 - beta2**state.count

        def clipped(path: KeyPath, direction: Array, g: Array, second: Array) -> Array:
            relative = jnp.square(g) / jnp.maximum(second / correction, epsilon**2)
            return direction / jnp.maximum(1, jnp.sqrt(relative.mean(axes_of(path), keepdims=True)))

        return tree_map_with_path(clipped, directions, gradient, state.nu), state

    return optax.GradientTransformation(rule.init, update)


def schedule_free(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns g / (sqrt(v / (1 - beta2^t)) + epsilon), Adam without its first moment, whose place
    `zoo.training.optimization.schedule_free` takes.
    """
    del traits
    beta2, epsilon = _fields(values, "beta2", "epsilon")
    return optax.scale_by_rms(beta2, epsilon, eps_in_sqrt=False, bias_correction=True)


def _fields(values: Values, *names: str) -> tuple:
    """Returns the values of fields of `optimizer`."""
    return tuple(values[f"optimizer.{name}"] for name in names)
