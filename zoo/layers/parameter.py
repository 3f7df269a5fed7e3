"""Abstract parameters: shape, logical axes and initializer, without memory until initialised.

Modules are always built abstractly. `zoo.models.functional.initialise` makes each value from a key
folded from the seed and the parameter's own path, so adding a module changes no other module's
values and two arms share the values of their common parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.config.kinds import FEED_FORWARD_KINDS
from zoo.layers.parametrization import width_ratio

Initializer = Callable[[Array, tuple[int, ...]], Array]


@dataclass(frozen=True)
class ByLayer:
    """An initializer whose values also depend on the layer.

    Attributes:
        make: function of (key, shape, number of the layer, from 0), a traced int32 for stacked layers.
    """

    make: Callable[[Array, tuple[int, ...], Int[Array, ""]], Array]

    def __call__(self, key: Array, shape: tuple[int, ...]) -> Array:
        """Returns the values of the first layer, for a module outside of a stack."""
        return self.make(key, shape, jnp.int32(0))


zeros: Initializer = jax.nn.initializers.zeros
ones: Initializer = jax.nn.initializers.ones


def parameter(
    shape: tuple[int, ...],
    axes: tuple[str | None, ...],
    initializer: Initializer,
    role: str | None = None,
    heads: int = 1,
) -> nnx.Param:
    """Describes a float32 parameter.

    Args:
        shape: its shape, for one layer.
        axes: the logical name of each dimension ("embed", "mlp", "heads", "kv_heads", "vocab",
            "expert"), which `zoo.training.mesh` maps to mesh axes; a dimension None is never split.
        initializer: function of (key, shape).
        role: what it is for, of `zoo.config.ROLES`, by which the optimizer's groups may select it; by
            default "matrix" with two or more dimensions, else "vector".
        heads: number of attention heads whose parts lie side by side in the last dimension.
    """
    return nnx.Param(jax.ShapeDtypeStruct(shape, jnp.float32), **described(axes, initializer, role, heads))


def described(
    axes: tuple[str | None, ...], initializer: Initializer, role: str | None = None, heads: int = 1
) -> dict[str, Any]:
    """Returns the metadata of a parameter; arguments are those of `parameter`."""
    role = role or ("matrix" if len(axes) >= 2 else "vector")
    return {"axes": axes, "initializer": initializer, "role": role, "heads": heads}


def vocabulary_rows(config: ResolvedConfig) -> int:
    """Returns the rows of a table of the vocabulary: V, up to a multiple of `vocab_multiple`."""
    return -(-config.vocab_size // config.vocab_multiple) * config.vocab_multiple


def vocabulary_parameter(
    config: ResolvedConfig, initializer: Initializer, role: str | None = None, columns: bool = True, width: int = 0
) -> nnx.Param:
    """Describes a table [P, D], or without `columns` a vector [P], with a row for every token id; P is
    `vocabulary_rows`. Rows beyond V are 0 and get no gradient, and do not change the initial values
    of the others.

    Args:
        config: the `model` part of the config.
        initializer: of the V rows.
        role: see `parameter`.
        columns: whether the table has columns; otherwise it is a vector.
        width: number of columns; 0 for D.
    """
    rows = vocabulary_rows(config)

    def padded(key: Array, shape: tuple[int, ...]) -> Array:
        values = initializer(key, (config.vocab_size, *shape[1:]))
        return jnp.pad(values, [(0, shape[0] - config.vocab_size)] + [(0, 0)] * (len(shape) - 1))

    shape, axes = ((rows, width or config.dim), ("vocab", "embed")) if columns else ((rows,), ("vocab",))
    return parameter(shape, axes, initializer if rows == config.vocab_size else padded, role)


class Statistic(nnx.Variable):
    """A value kept between steps without a gradient: running averages, random features."""


def statistic(
    shape: tuple[int, ...],
    initializer: Initializer,
    redraw_every: int = 0,
    adds: bool = False,
    balances: tuple[str, float] | None = None,
) -> Statistic:
    """Describes a float32 statistic.

    Args:
        shape: its shape, for one layer.
        initializer: function of (key, shape).
        redraw_every: steps after which it is redrawn; 0 for never.
        adds: every forward pass adds a number to it, so that it counts over the parts of a batch, the
            groups of devices and the uses of a shared layer. With `balances` it is 0 again after the
            update; without, it goes on over the run.
        balances: of counts by expert: the name of the statistic beside it that follows them once per
            update, and by how much (`zoo.models.functional.balanced`).
    """
    described = jax.ShapeDtypeStruct(shape, jnp.float32)
    return Statistic(
        described,
        axes=(None,) * len(shape),
        initializer=initializer,
        redraw_every=redraw_every,
        adds=adds,
        balances=balances,
    )


def normal(std: float) -> Initializer:
    """Returns a normal initializer with mean 0 and the given standard deviation."""
    return jax.nn.initializers.normal(std)


def constant(value: float) -> Initializer:
    """Returns an initializer that gives one value everywhere."""
    return jax.nn.initializers.constant(value)


def kernel_initializer(config: ResolvedConfig, scale: float = 1.0, transposed: bool = False) -> Initializer:
    """Returns the initializer of weight matrices that `model.init.kernel` names.

    Under muP the variance of `normal` is divided by D / `base_dim`; the others divide by the width
    themselves.

    Args:
        config: the `model` part of the config.
        scale: factor on the standard deviation.
        transposed: the matrix is stored as [out, in] instead of [in, out].
    """
    in_axis, out_axis = (-1, -2) if transposed else (-2, -1)

    def scaled(variance: float, mode: str, distribution: str) -> Initializer:
        return jax.nn.initializers.variance_scaling(variance * scale**2, mode, distribution, in_axis, out_axis)

    return {
        "normal": lambda: normal(config.init.std * scale * width_ratio(config) ** -0.5),
        "xavier_uniform": lambda: scaled(1.0, "fan_avg", "uniform"),
        "xavier_normal": lambda: scaled(1.0, "fan_avg", "normal"),
        "lecun_normal": lambda: scaled(1.0, "fan_in", "truncated_normal"),
        "he_normal": lambda: scaled(2.0, "fan_in", "truncated_normal"),
    }[config.init.kernel]()


def output_initializer(config: ResolvedConfig, gain: float = 1.0) -> Initializer:
    """Returns the initializer of a sublayer's last matrix: that of `kernel_initializer`, divided by
    the square root of the number of sublayers with `init.scale_residual` (GPT-2: 2 L), as if all L
    layers were of this kind, or 0 with `init.zero_outputs`.

    Args:
        config: the `model` part of the config.
        gain: factor on the standard deviation.
    """
    if config.init.zero_outputs:
        return zeros
    sublayers = config.num_layers * (2 if config.ffn.kind in FEED_FORWARD_KINDS.having("hidden") else 1)
    return kernel_initializer(config, gain * (sublayers**-0.5 if config.init.scale_residual else 1.0))


class Linear(nnx.Module):
    """y = x W + b over the last dimension.

    Leading dimensions are flattened first: with a 2-D left operand the weight gradient contracts
    one dimension, which saves XLA's CPU backend a strided copy of the activations and costs nothing
    on an accelerator.

    Args:
        in_dim, out_dim: width of x and of y.
        axes: logical names of the dimensions of W.
        bias: whether there is b.
        initializer: that of W; b is 0 at first.
        role, heads: those of W (see `parameter`); b is a "vector".
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        axes: tuple[str | None, str | None],
        bias: bool,
        initializer: Initializer,
        role: str | None = None,
        heads: int = 1,
    ):
        self.kernel = parameter((in_dim, out_dim), axes, initializer, role, heads)
        self.bias = parameter((out_dim,), (axes[1],), zeros) if bias else None

    def __call__(self, x: Float[Array, "*leading I"]) -> Float[Array, "*leading O"]:
        """Applies the map in the type of `x`."""
        flat = x.reshape(-1, x.shape[-1])
        y = flat @ self.kernel[...].astype(x.dtype)
        if self.bias is not None:
            # Added in float32, so that its gradient is summed over the tokens in float32.
            y = (y.astype(jnp.float32) + self.bias[...]).astype(x.dtype)
        return y.reshape(*x.shape[:-1], y.shape[-1])
