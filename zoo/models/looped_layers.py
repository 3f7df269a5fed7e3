"""Turns of a loop over layers (`model.layers.sharing=cycle`): their number, and their statistics."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from zoo.config import Loop, ResolvedConfig, loop_of
from zoo.layers.context import Context
from zoo.models.loop_draws import largest_loops

Turn = Callable[[Any, Int[Array, ""]], tuple[Any, Any]]
"""(x, number of the turn) -> (x after it, what the turn leaves beside it)."""


class Turns(NamedTuple):
    """The turns of a forward pass.

    Attributes:
        loop: the loop with the number of turns that the program has.
        drawn: number of turns that are run, at most as many; None for all.
    """

    loop: Loop
    drawn: Int[Array, ""] | None = None

    @property
    def depth(self) -> int | Int[Array, ""]:
        """The number of layers that are applied."""
        return self.loop.depth if self.drawn is None else self.loop._replace(loops=self.drawn).depth

    def within(self, turn: int) -> list[tuple[int, int]]:
        """Returns the layers of a turn, each as its index and the place of its weights."""
        first = self.loop.prelude + turn * self.loop.looped
        return [(first + offset, self.loop.prelude + offset) for offset in range(self.loop.looped)]

    @property
    def coda(self) -> list[tuple[int | Int[Array, ""], int]]:
        """The layers after the loop, likewise."""
        before = self.depth - self.loop.coda
        return [(before + offset, self.loop.stored - self.loop.coda + offset) for offset in range(self.loop.coda)]

    def last_uses(self, values: Array, before: Array, adds: bool) -> Array:
        """Returns a statistic of the stored layers from that after each application.

        Args:
            values: [P + T R + C, ...] for T turns of the program. Skipped layers have `before`.
            before: [P + R + C, ...], that with which each application began.
            adds: every application adds to the statistic, and the sum of all is returned; otherwise
                that of the last application.
        """
        P, R, _, T = self.loop
        core = values[P : P + T * R].reshape(T, R, *values.shape[1:])
        of_last = core[(T if self.drawn is None else self.drawn) - 1]
        of_core = core.sum(0) - (T - 1) * before[P : P + R] if adds else of_last
        return jnp.concatenate([values[:P], of_core, values[P + T * R :]])


def turns_of(model: ResolvedConfig, context: Context) -> Turns:
    """Returns the turns of a stack with a loop in a forward pass: as many as the pass has drawn, else
    as the config says, for training or for evaluation.

    Args:
        model: the config below `model`, or one side of it.
        context: the forward pass.
    """
    loop = loop_of(model, evaluated=not context.training)
    if context.training and context.loops is not None:
        return Turns(loop._replace(loops=largest_loops(model)), context.loops)
    return Turns(loop)


def context_of_turns(turns: Turns | None, context: Context) -> Callable[[], Context]:
    """Returns a function that returns the context of the layers.

    Where turns are drawn it makes the dropout key inside of a turn, from its data: JAX cannot
    differentiate a branch that keeps a random key for the backward pass, as recomputed layers do.
    """
    dropout = context.dropout_key
    if turns is None or turns.drawn is None or dropout is None:
        return lambda: context
    data, generator = jax.random.key_data(dropout.key), jax.random.key_impl(dropout.key)

    def inside() -> Context:
        key = jax.random.wrap_key_data(data, impl=generator)
        return replace(context, dropout_key=dropout._replace(key=key))

    return inside


def scan_turns(x: Any, run: Turn, turns: Turns, first: int, before: Any) -> tuple[Any, Any]:
    """Runs turns from `first` on as one loop. Returns x after them, and what they leave beside it,
    stacked over turns.

    Turns beyond those that are drawn are skipped: they leave x as it is, and are not computed unless
    several runs, which draw numbers of their own, share a program. What the backward pass keeps is
    allocated for all turns of the program.

    Args:
        x: what enters the first of these turns.
        run: one turn, which leaves a tuple beside x, statistics first.
        turns: the turns.
        first: number of the first turn of these.
        before: the statistics of the looped layers, which a skipped turn leaves; all else of it is 0.
    """

    def one(x, turn):
        if turns.drawn is None:
            return run(x, turn)
        shapes = jax.eval_shape(run, x, turn)[1]
        rest = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes[1:])
        return jax.lax.cond(turn < turns.drawn, run, lambda x, turn: (x, (before, *rest)), x, turn)

    return jax.lax.scan(one, x, jnp.arange(first, turns.loop.loops))
