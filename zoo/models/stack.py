"""A stack of layers, stored with a leading layer dimension and run unrolled or scanned."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig, layer_kind, stored_layers
from zoo.config.kinds import PLACEMENT_KINDS
from zoo.layers.activation_record import squares
from zoo.layers.attention import SharedScores
from zoo.layers.context import Context
from zoo.layers.norm import Norm
from zoo.layers.parameter import Statistic
from zoo.layers.placement import make_block
from zoo.models.earlier_layers import Earlier, Left
from zoo.models.functional import split, stack, statistics_of
from zoo.models.layer_loops import layer_loops
from zoo.models.looped_layers import Turns, context_of_turns, scan_turns, turns_of
from zoo.models.rematerialisation import REMAT_POLICIES


class Kinds(nnx.Module):
    """The stacked layers of each kind, by name."""


class Stack(nnx.Module):
    """L blocks in sequence.

    Identical layers are stored as one stack, [L, ...]; with `layers.pattern`, each kind has its own
    stack, ordered by depth. `scan_layers` only chooses how they run: a `jax.lax.scan` over layers,
    over periods of the pattern or over neighbours of one kind, which compiles in constant time, or a
    loop over slices, which is faster per step on a CPU. `remat` names what the backward pass
    recomputes.

    With n = `layers.distinct` only n blocks are stored, [n, ...], and each is applied L / n times in
    a row: x = f_g(f_g(... x)), by Lan et al. 2020, section 3.1, with n = 1. Its gradient is the sum
    over its applications. Each application is a layer of its own in all else: its index, dropout,
    cache and record. Statistics are those of the last one, and counts the sum over all.

    With `layers.sharing=cycle` the stored layers are a prelude of P, a core of R that is looped over,
    and a coda of C: x = coda(core(... core(prelude(x)))). With `layers.reinjection` each turn after
    the first reads x + e, e the output of the prelude (Yang et al. 2024c, arXiv:2311.12424). The
    number of turns is that of the config, in training perhaps drawn (`Context.loops`), and in
    evaluation perhaps another. Drawn turns are scanned, and those that were not drawn are skipped.

    Between layers there is what the placement's `Block.expand` makes of the tokens: one residual
    stream or several. The norm after the last layer is given, because `Block.hidden_states` says what
    it reads.

    With `attention.keys_from` each layer whose kind is named leaves its keys and values, and the
    layers after it read the last ones (Brandon et al. 2024). In a period of the pattern a layer is
    read after it only, so that nothing is carried from one scanned period to the next.

    If a part of a block publishes arrays (a class attribute `publishes` with their names, see
    `Context.publish`), the first layer runs before the scan, and all later ones get its arrays.
    Shared layers run unrolled then.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, sides: tuple[int, int] | None = None):
        self.config, self.placement = config, PLACEMENT_KINDS.code_of(config.norm.placement)
        pattern = tuple(config.layers.pattern)
        depth = config.num_layers
        self.scan, self.remat = config.scan_layers, config.remat
        self.pattern = pattern or ("",)
        self.kinds = tuple(self.pattern[layer % len(self.pattern)] for layer in range(depth))
        self.keys_from = tuple((name, layer_kind(config, name).attention.keys_from) for name in dict.fromkeys(pattern))
        self.uses = 1
        self.loops = config.layers.sharing == "cycle"
        if not pattern:
            stored = stored_layers(config)
            self.uses = 1 if self.loops else depth // len(stored)
            self.layers = stack(make_block(config, cross, sides), stored)
            return
        self.layers = Kinds()
        for name in dict.fromkeys(self.kinds):
            block = make_block(layer_kind(config, name), cross, sides)
            setattr(self.layers, name, stack(block, self._layers_of_kind(name), name))

    def _layers_of_kind(self, name: str) -> list[int]:
        return [layer for layer, kind in enumerate(self.kinds) if kind == name]

    def _place(self, layer: int) -> int:
        """Returns the place of a layer's weights in the stack of its kind."""
        return self.kinds[:layer].count(self.kinds[layer]) // self.uses

    def _places(self, start: int, end: int) -> list[tuple[int, int]]:
        """Returns some layers, each with the place of its weights."""
        return [(layer, self._place(layer)) for layer in range(start, end)]

    def _blocks(self) -> dict[str, nnx.Module]:
        return {name: getattr(self.layers, name) if name else self.layers for name in dict.fromkeys(self.kinds)}

    def _publishes(self) -> bool:
        return any(
            getattr(part, "publishes", ()) for block in self._blocks().values() for _, part in nnx.iter_modules(block)
        )

    def __call__(
        self,
        x: Float[Array, "B T D"],
        context: Context,
        shared: Float[Array, "#B H T S"] | SharedScores | None,
        final_norm: Norm,
    ) -> Float[Array, "B T D"]:
        """Applies the blocks in order, and the norm after them; updates their statistics."""
        parts = {name: split(block) for name, block in self._blocks().items()}
        graphs = {name: graph for name, (graph, *_) in parts.items()}
        state = {name: values for name, (_, *values) in parts.items()}

        turns = turns_of(self.config, context) if self.loops else None
        depth = len(self.kinds) if turns is None else turns.depth
        context = replace(context, depth=depth, embedding=x)
        recording, collecting, publishing = context.record is not None, context.losses is not None, self._publishes()
        if recording:
            context.record["embedding"] = squares(x, context)
            if context.record_arrays:
                context.record["states"] = x

        own_context = context_of_turns(turns, context)

        def apply(x, values, index, earlier, name):
            block = nnx.merge(graphs[name], *values)
            first = publishing and earlier.published is None
            layer_context = replace(
                own_context().layer(index).kind(name),
                record={} if recording else None,
                losses={} if collecting else None,
                published={} if first else earlier.readable(),
                key_values=earlier.for_layer(name, dict(self.keys_from)),
            )
            # At both ends, so that forward and backward pass gather weights and not activations.
            x = context.shard_rows(block(context.shard_rows(x), layer_context, shared))
            if recording:
                states = self.placement.reduce(x, self.config)
                layer_context.record["residual"] = squares(states, context)
                if context.record_arrays:
                    layer_context.record["states"] = states
            after = statistics_of(block), layer_context.record, layer_context.losses
            return x, after, Left.by_layer(layer_context, first)

        def with_remat(name):
            layer = partial(apply, name=name)
            # A cache is written in place, which checkpointing does not allow, and has no gradient.
            if self.remat != "none" and context.cache is None:
                layer = jax.checkpoint(layer, policy=REMAT_POLICIES[self.remat], prevent_cse=not self.scan)

            def and_then(x, values, index, earlier):
                x, after, left = layer(x, values, index, earlier)
                return x, after, earlier.following(left, name)

            return and_then

        layers = {name: with_remat(name) for name in graphs}
        new: dict[str, list] = {name: [] for name in graphs}
        earlier, start = Earlier(), 0
        x = context.shard_rows(self.placement.expand(x, self.config))
        entered = x
        if publishing:
            x, earlier = self._unroll(x, layers, state, [(0, 0)], earlier, new)
            start = 1
        scannable = self.scan and context.cache is None and not (publishing and self.uses > 1)
        if turns is None:
            x = self._in_order(x, layers, state, start, earlier, new, scannable)
        else:
            x = self._looped(x, entered, layers, state, turns, earlier, new, scannable)
        self._write_back(new, context, turns)
        return self.placement.hidden_states(x, final_norm, self.config, context)

    def _in_order(self, x, layers, state, start, earlier, new, scannable):
        """Runs the layers from `start` on: as loops (`layer_loops`) if layers are scanned, otherwise
        one at a time. Outside of periods, the last of neighbours whose keys are read runs by itself.
        """
        depth, sources = len(self.kinds), {source for _, source in self.keys_from if source}
        if not scannable:
            return self._unroll(x, layers, state, self._places(start, depth), earlier, new)[0]
        if start and sources:
            # A scanned period begins before the layers that are read in it.
            whole = min(len(self.pattern), depth)
            x, earlier = self._unroll(x, layers, state, self._places(start, whole), earlier, new)
            start = whole

        def scanned(x, scan, earlier):
            x, found = scan(x, layers, state, earlier=earlier)
            for name, stats in found.items():
                new[name].append(stats)
            return x

        if self.uses > 1:
            return scanned(x, self._scan_shared, earlier)
        for loop in layer_loops(self.kinds, len(self.pattern), start, sources):
            if loop.period == loop.turns == 1 and self.kinds[loop.first] in sources:
                read = self._places(loop.first, loop.first + 1)
                x, earlier = self._unroll(x, layers, state, read, earlier, new)
            else:
                x = scanned(x, partial(self._scan, loop=loop), earlier)
        return x

    def _scan(self, x, layers, state, loop, earlier):
        """Runs the layers of a loop."""
        start, period, periods = loop
        pattern = self.kinds[start : start + period]
        counts = {name: pattern.count(name) for name in dict.fromkeys(pattern)}

        def grouped(name):
            count, first = counts[name], self.kinds[:start].count(name)
            return jax.tree.map(
                lambda leaf: leaf[first : first + periods * count].reshape(periods, count, *leaf.shape[1:]), state[name]
            )

        def one_period(x, inputs):
            period_index, values = inputs
            seen, stats, known = dict.fromkeys(counts, 0), {name: [] for name in counts}, earlier
            for offset, name in enumerate(pattern, start):
                layer = jax.tree.map(lambda leaf, index_in_stack=seen[name]: leaf[index_in_stack], values[name])
                x, after, known = layers[name](x, layer, period_index * len(pattern) + offset, known)
                seen[name] += 1
                stats[name].append(after)
            return x, {name: _stacked(each) for name, each in stats.items()}

        x, stats = jax.lax.scan(one_period, x, (jnp.arange(periods), {name: grouped(name) for name in counts}))
        return x, {name: _merged(each) for name, each in stats.items()}

    def _scan_shared(self, x, layers, state, earlier):
        """Runs all layers as a loop over the stored ones, around a loop over the uses of each."""
        ((name, layer),) = layers.items()

        def one_stored(x, inputs):
            place, values = inputs

            def one_use(x, use):
                x, after, _ = layer(x, values, place * self.uses + use, earlier)
                return x, after

            return jax.lax.scan(one_use, x, jnp.arange(self.uses))

        x, stats = jax.lax.scan(one_stored, x, (jnp.arange(len(self.kinds) // self.uses), state[name]))
        return x, {name: _merged(stats)}

    def _looped(self, x, entered, layers, state, turns, earlier, new, scannable):
        """Runs all layers of a stack with a loop; `entered` is what entered the stack, and its first
        layer has run already if it published something.
        """
        start, first, P = 0 if earlier.published is None else 1, 0, turns.loop.prelude

        def unroll(x, applied):
            return self._unroll(x, layers, state, applied, earlier, new)[0]

        x = unroll(x, [(index, index) for index in range(start, P)])
        entered = x if start <= P else entered
        if start > P:
            x, first = unroll(x, turns.within(0)[1:]), 1
        if scannable or turns.drawn is not None:
            x, stats = self._scan_turns(x, entered, layers[""], state[""], turns, earlier, first)
            new[""].append(_merged(stats))
        else:
            for turn in range(first, turns.loop.loops):
                x = unroll(x + entered if turn and self.config.layers.reinjection else x, turns.within(turn))
        return unroll(x, turns.coda)

    def _scan_turns(self, x, entered, layer, values, turns, earlier, first):
        """Runs turns of the loop from `first` on as one loop, around a loop over the layers of each if
        layers are scanned.
        """
        P, R = turns.loop.prelude, turns.loop.looped
        looped = jax.tree.map(lambda leaf: leaf[P : P + R], values)

        def one_turn(x, turn):
            def one_layer(x, inputs):
                offset, own = inputs
                x, after, _ = layer(x, own, P + turn * R + offset, earlier)
                return x, after

            if self.config.layers.reinjection:
                x = jnp.where(turn > 0, x + entered, x)
            if self.scan:
                return jax.lax.scan(one_layer, x, (jnp.arange(R), looped))
            after = []
            for inputs in enumerate(_unstacked(looped)):
                x, own = one_layer(x, inputs)
                after.append(own)
            return x, _stacked(after)

        return scan_turns(x, one_turn, turns, first, looped[1])

    def _unroll(self, x, layers, state, applied, earlier, new):
        """Runs some layers one at a time, each given as its index and the place of its weights.
        Returns the tokens after them, and what they have left for later layers.
        """
        slices = {name: _unstacked(values) for name, values in state.items()}
        after: dict[str, list] = {name: [] for name in state}
        for index, place in applied:
            name = "" if self.loops else self.kinds[index]
            values = slices[name][place]
            x, stats, earlier = layers[name](x, values, index, earlier)
            after[name].append(stats)
        for name, each in after.items():
            if each:
                new[name].append(_stacked(each))
        return x, earlier

    def _write_back(self, new, context, turns):
        """Writes the layers' statistics back, stacked, and their records by layer; adds up the
        terms of the loss.
        """
        for name, block in self._blocks().items():
            stats, records, losses = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *new[name])
            for place, values in (losses or {}).items():
                context.losses[place] = context.losses.get(place, 0.0) + values.sum()
            if context.record is not None:
                layers = self._layers_of_kind(name) if turns is None else range(turns.depth)
                for index_in_stack, layer in enumerate(layers):
                    context.record[f"layer {layer}"] = jax.tree.map(lambda leaf, i=index_in_stack: leaf[i], records)
            if stats:
                nnx.update(block, nnx.from_flat_state(_with_values(block, stats, self.uses, turns)))


def _stacked(trees: list) -> Any:
    """Returns one tree of arrays [L, ...] from the trees of L layers."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _merged(tree: Any) -> Any:
    """Returns a tree of arrays [N L, ...] from arrays [N, L, ...]."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tree)


def _unstacked(values) -> list:
    """Returns the values of each layer from stacked values."""
    leaves, structure = jax.tree.flatten(values)
    return [jax.tree.unflatten(structure, layer) for layer in zip(*(jnp.unstack(leaf) for leaf in leaves), strict=True)]


def _with_values(block: nnx.Module, stats, uses: int, turns: Turns | None) -> Iterator[tuple[tuple, nnx.Variable]]:
    """Yields the statistics of stored layers, from those after each of their uses."""
    for path, variable in nnx.state(block, Statistic).flat_state():
        value = stats
        for name in path:
            value = value[name]
        adds = bool(variable.get_metadata("adds"))
        if turns is not None:
            yield path, variable.replace(turns.last_uses(value, variable.get_value(), adds))
            continue
        last = value[uses - 1 :: uses]
        if uses > 1 and adds:
            # Every use begins with the same counts.
            before = variable.get_value()
            last = value.reshape(-1, uses, *value.shape[1:]).sum(1) - (uses - 1) * before
        yield path, variable.replace(last)
