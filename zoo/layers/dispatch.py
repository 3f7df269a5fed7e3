"""Rows of tokens for their experts, and the weighted sum of what the experts return.

Token t is assigned to k experts; assignment a = t k + i is its i-th. Both directions, and the
gradients of both, look rows up and never add into them: a sum over rows in the order of the experts
would be made one row after the other.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Places(NamedTuple):
    """Places of the assignments among M rows.

    Attributes:
        assignments: the assignment of each row; T k for a row without one.
        rows: the row of each assignment; M for an assignment that has none here.
    """

    assignments: Int[Array, " M"]
    rows: Int[Array, "T k"]


def sorted_places(chosen: Int[Array, "T k"], room: int = 0) -> Places:
    """Returns the places of the assignments in the order of their experts, and of their tokens within
    each, and after them so many rows without one.
    """
    order = jnp.argsort(chosen.reshape(-1), stable=True)
    rows = jnp.argsort(order).reshape(chosen.shape)
    return Places(jnp.pad(order, (0, room), constant_values=chosen.size), rows)


def _looked_up(x: Float[Array, "N D"], at: Int[Array, "..."]) -> Float[Array, "... D"]:
    return x.at[at].get(mode="fill", fill_value=0)


@jax.custom_vjp
def dispatched(x: Float[Array, "T D"], places: Places) -> Float[Array, "M D"]:
    """Returns the token of each row; 0 for a row without an assignment."""
    return _looked_up(x, places.assignments // places.rows.shape[1])


def _dispatched_backward(places: Places, change: Float[Array, "M D"]) -> tuple[Float[Array, "T D"], None]:
    changes = _looked_up(change, places.rows)
    return changes.astype(jnp.float32).sum(axis=1).astype(change.dtype), None


dispatched.defvjp(lambda x, places: (dispatched(x, places), places), _dispatched_backward)


@jax.custom_vjp
def combined(y: Float[Array, "M D"], gates: Float[Array, "T k"], places: Places) -> Float[Array, "T D"]:
    """Returns the sum over the assignments of each token of gate times row, in float32."""
    return (_looked_up(y, places.rows).astype(jnp.float32) * gates[..., None]).sum(axis=1)


def _combined_backward(kept: tuple[Array, Array, Places], change: Float[Array, "T D"]) -> tuple[Array, Array, None]:
    y, gates, places = kept
    of_rows = _looked_up(change, places.assignments // gates.shape[1])
    weights = gates.reshape(-1).at[places.assignments].get(mode="fill", fill_value=0)
    of_gates = (_looked_up(y, places.rows).astype(jnp.float32) * change[:, None]).sum(axis=-1)
    return (of_rows * weights[:, None]).astype(y.dtype), of_gates.astype(gates.dtype), None


combined.defvjp(lambda y, gates, places: (combined(y, gates, places), (y, gates, places)), _combined_backward)
