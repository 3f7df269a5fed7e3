"""LSTM with projected output and clipped states (Sak et al. 2014; Peters et al. 2018)."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from zoo.config import ResolvedConfig
from zoo.layers.parameter import Linear, kernel_initializer, parameter, zeros

LSTMState = tuple[Float[Array, "B D"], Float[Array, "B M"]]


class ProjectedLSTM(nnx.Module):
    """A layer of an LSTM whose state is projected (LSTMP), in one direction.

    With M the width of the cell and * elementwise:

        i, f, g, o = x_t W + h_(t-1) U + b
        c_t = clip(sigmoid(f) * c_(t-1) + sigmoid(i) * tanh(g), m)
        h_t = clip((sigmoid(o) * tanh(c_t)) P, n)

    W, U and P are matrices: W the one of inputs, U the one of states, P the projection to D. m is
    `elmo.cell_clip` and n `elmo.projection_clip`.

    This is the LSTMP of Sak et al. 2014 without peepholes, clipped as in Peters et al. 2018. The
    forget gate's bias starts at 1 (Jozefowicz et al. 2015). Padding gives zeros and leaves the
    state unchanged, so it may be anywhere in a row, and a row that is read backwards starts at
    its last token. Products over all tokens are outside the loop over time; the cell c is float32
    for any type of activations.
    """

    def __init__(self, config: ResolvedConfig):
        D, M = config.dim, config.elmo.cell_dim
        initializer = kernel_initializer(config)
        self.input = Linear(D, 4 * M, ("embed", "mlp"), True, initializer)
        self.input.bias = parameter((4 * M,), ("mlp",), lambda key, shape: zeros(key, shape).at[M : 2 * M].set(1))
        self.recurrent = Linear(D, 4 * M, ("embed", "mlp"), False, initializer)
        self.projection = Linear(M, D, ("mlp", "embed"), False, initializer)
        self.limits = (config.elmo.cell_clip, config.elmo.projection_clip)

    def __call__(
        self, x: Float[Array, "T B D"], filled: Bool[Array, "T B"], state: LSTMState, reverse: bool = False
    ) -> tuple[Float[Array, "T B D"], LSTMState]:
        """Reads a batch of rows, time first.

        Args:
            x: input of every token.
            filled: False for padding.
            state: (h, c) before the first token that is read.
            reverse: read from the last token to the first.

        Returns:
            (h of every token, the state after the last token that is read).
        """
        static = _Static(*self.limits, reverse)
        state = (state[0].astype(x.dtype), state[1].astype(jnp.float32))
        return _lstm(static, self.input(x), filled, state, self.recurrent.kernel[...], self.projection.kernel[...])


class _Static(NamedTuple):
    """Values that are known before tracing."""

    cell_clip: float
    projection_clip: float
    reverse: bool


def _clip(x: Array, limit: float) -> Array:
    return jnp.clip(x, -limit, limit) if limit else x


def _cell(
    gates: Float[Array, "B F"], memory: Float[Array, "B M"], limit: float
) -> tuple[Float[Array, "B M"], Float[Array, "B M"]]:
    """Returns (sigmoid(o) * tanh(c), c): one step up to the projection."""
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    memory = _clip(jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g), limit)
    return jax.nn.sigmoid(o) * jnp.tanh(memory), memory


# Differentiating the loop would add up the gradients of the matrices in every step, in the type of
# activations. Here the backward loop carries only (dh, dc), and each matrix gets its gradient in
# one product over all tokens: less traffic, less memory, float32 sums.
@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _lstm(
    static: _Static,
    inputs: Float[Array, "T B F"],
    filled: Bool[Array, "T B"],
    state: LSTMState,
    recurrent: Float[Array, "D F"],
    projection: Float[Array, "M D"],
) -> tuple[Float[Array, "T B D"], LSTMState]:
    return _forward(static, inputs, filled, state, recurrent, projection)[0]


def _forward(static, inputs, filled, state, recurrent, projection):
    dtype = inputs.dtype
    U, P = recurrent.astype(dtype), projection.astype(dtype)

    def step(state, token):
        (h, c), (projected, filled) = state, token
        gates = projected + jnp.matmul(h, U, preferred_element_type=jnp.float32)
        exposed, cell = _cell(gates, c, static.cell_clip)
        y = jnp.matmul(exposed.astype(dtype), P, preferred_element_type=jnp.float32)
        free = jnp.abs(y) < static.projection_clip if static.projection_clip else jnp.ones_like(y, bool)
        y = _clip(y, static.projection_clip).astype(dtype)
        filled = filled[:, None]
        after = jnp.where(filled, y, h), jnp.where(filled, cell, c)
        return after, (jnp.where(filled, y, 0), (h, c, gates.astype(dtype), free & filled))

    state, (outputs, kept) = jax.lax.scan(step, state, (inputs, filled), reverse=static.reverse)
    return (outputs, state), (filled, recurrent, projection, kept)


def _backward(static, residuals, gradients):
    filled, recurrent, projection, (h, c, gates, free) = residuals
    d_outputs, (d_h, d_c) = gradients
    dtype = h.dtype
    U, P = recurrent.astype(dtype), projection.astype(dtype)

    def step(d_state, token):
        (d_h, d_c), (d_output, filled, c, gates, free) = d_state, token
        filled = filled[:, None]
        (exposed, _), pull_back = jax.vjp(
            lambda gates, c: _cell(gates, c, static.cell_clip), gates.astype(jnp.float32), c
        )
        d_y = jnp.where(free, d_output + d_h, 0).astype(dtype)
        # For padding everything pulled back is zero; the gradient of the state passes it unchanged.
        d_exposed = jnp.matmul(d_y, P.T, preferred_element_type=jnp.float32)
        d_gates, d_cell = pull_back((d_exposed, jnp.where(filled, d_c, 0)))
        d_gates = d_gates.astype(dtype)
        d_before = jnp.matmul(d_gates, U.T, preferred_element_type=jnp.float32)
        return (jnp.where(filled, d_before, d_h), jnp.where(filled, d_cell, d_c)), (d_gates, d_y, exposed.astype(dtype))

    (d_h, d_c), (d_gates, d_y, exposed) = jax.lax.scan(
        step, (d_h.astype(jnp.float32), d_c), (d_outputs, filled, c, gates, free), reverse=not static.reverse
    )

    def over_tokens(left, right):
        left, right = (x.reshape(-1, x.shape[-1]) for x in (left, right))
        return jnp.matmul(left.T, right, preferred_element_type=jnp.float32)

    return d_gates, None, (d_h.astype(dtype), d_c), over_tokens(h, d_gates), over_tokens(exposed, d_y)


_lstm.defvjp(_forward, _backward)
