"""Modules of Flax, such as `flax.nnx.Linear`, as parts of layers whose parameters are made by path."""

from collections.abc import Callable, Mapping

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from zoo.errors import ConfigError
from zoo.layers.parameter import Initializer, described

Axes = tuple[str | None, ...]


def from_flax(make: Callable[[nnx.Rngs], nnx.Module], axes: Mapping[str, Axes] | None = None) -> nnx.Module:
    """Builds a module of Flax without memory, and describes its parameters as `parameter` does.

    The module's own initializers are kept. Each is called with the key of the parameter's path, and
    not with the one that Flax would draw next, so values depend on the seed and the path alone.

    Args:
        make: returns the module, e.g. `lambda rngs: nnx.Linear(D, F, dtype=config.dtype, rngs=rngs)`.
            It is called once for the shapes and once for the initial value of each parameter.
        axes: the logical name of each dimension (see `parameter`), by the path of a parameter in the
            module, e.g. {"kernel": ("embed", "mlp")}. A parameter without them is never split.

    Raises:
        ConfigError: the module holds what is no float32 parameter, or a list of modules, or `axes`
            names no parameter of it.
    """
    axes = dict(axes or {})
    module = nnx.eval_shape(lambda: make(nnx.Rngs(0)))
    name, paths = type(module).__name__, []
    for path, variable in nnx.state(module).flat_state():
        place, value = "/".join(map(str, path)), variable.get_value()
        if not isinstance(variable, nnx.Param):
            raise ConfigError(
                f"flax.nnx.{name}: {place} is a {type(variable).__name__}, and only parameters are kept; use "
                "context.dropout for dropout and plugin.statistic for running averages"
            )
        if value.dtype != jnp.float32:
            raise ConfigError(
                f"flax.nnx.{name}: {place} is {value.dtype}; leave param_dtype at float32 and set dtype, the type of "
                "the computation"
            )
        if not all(isinstance(part, str) for part in path):
            raise ConfigError(
                f"flax.nnx.{name}: {place} is in a list of modules; call from_flax for each module, as an attribute "
                "of its own"
            )
        names = axes.pop(place, (None,) * value.ndim)
        if len(names) != value.ndim:
            raise ConfigError(
                f"flax.nnx.{name}: axes of {place}: expected a name or None for each of its {value.ndim} dimensions, "
                f"got {names}"
            )
        variable.set_metadata(**described(names, _value_of(make, path)))
        paths.append(place)
    if axes:
        raise ConfigError(f"flax.nnx.{name}: axes of {', '.join(axes)}: its parameters are {', '.join(paths)}")
    return module


def _value_of(make: Callable[[nnx.Rngs], nnx.Module], path: tuple[str, ...]) -> Initializer:
    """Returns an initializer that makes the module and takes one of its values."""

    def initializer(key: Array, shape: tuple[int, ...]) -> Array:
        del shape
        values = nnx.to_pure_dict(nnx.state(make(nnx.Rngs(key))))
        for part in path:
            values = values[part]
        return values

    return initializer
