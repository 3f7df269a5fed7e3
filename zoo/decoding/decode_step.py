"""A model as two functions: prefill reads the prompts, step reads the next token of every row.

Both return the logits of the next token. They use the attention cache, or read all tokens again.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.layers.cache import Cache
from zoo.layers.context import Context, Memory
from zoo.models.functional import Params, Stats


class PaddedTokens(NamedTuple):
    """Token ids, padded at the end.

    Attributes:
        tokens: [B, P].
        lengths: [B], number of tokens without padding, at least 1.
    """

    tokens: Int[Array, "B P"]
    lengths: Int[Array, " B"]

    @property
    def positions(self) -> Int[Array, "B P"]:
        """Positions, counted from 0; -1 for padding."""
        places = jnp.arange(self.tokens.shape[1])[None]
        return jnp.where(places < self.lengths[:, None], places, -1)


class UnstackedWeights(NamedTuple):
    """A model's parameters and statistics with a tuple of L arrays for each array of L layers.

    Slicing a stack, or casting a matrix, for every token would copy the model for every token.
    """

    params: Params
    stats: Stats

    def merged(self, graph: nnx.GraphDef) -> nnx.Module:
        """Returns the model.

        Its layers are stacked only for the model to slice them again, which costs nothing.
        """

        def stacked(tree):
            return jax.tree.map(
                lambda leaf: jnp.stack(leaf) if isinstance(leaf, tuple) else leaf,
                tree,
                is_leaf=lambda node: isinstance(node, tuple),
            )

        return nnx.merge(graph, stacked(self.params), stacked(self.stats))


# Parameters that are cast to the type of the activations wherever they are used.
MATRICES = ("kernel", "embedding", "source_embedding", "weights")


def unstack_layers(params: Params, stats: Stats, dtype: str) -> UnstackedWeights:
    """Unstacks the layers, casts matrices to `dtype` and moves everything to the device.

    This is not one compiled program, which would take seconds to compile.
    """

    def cut(path, leaf):
        leaf = jnp.asarray(leaf, dtype if path[-1].key in MATRICES else None)
        return (
            tuple(leaf[layer] for layer in range(leaf.shape[0])) if any(key.key == "layers" for key in path) else leaf
        )

    return UnstackedWeights(*(jax.tree_util.tree_map_with_path(cut, tree) for tree in (params, stats)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class UncachedState:
    """The tokens so far, which are read again for every new token; a full buffer drops the oldest.

    Attributes:
        tokens: [B, S].
        lengths: [B].
        memory: what cross-attention reads.
        memory_positions: positions of the memory.
    """

    tokens: Int[Array, "B S"]
    lengths: Int[Array, " B"]
    memory: Float[Array, "M N D"] | None = None
    memory_positions: Int[Array, "M N"] | None = None


State = Cache | UncachedState


@dataclass(frozen=True)
class IncrementalDecoder:
    """A model as two functions: `prefill` reads the prompts, `step` the next token of every row.

    Attributes:
        graph: graph definition of the model.
        has_encoder: the model is an encoder-decoder.
        depth: number of the decoder's layers.
        slots: capacity in tokens per row.
        vocab_size: ids below it may be generated.
        cached: use the attention cache, else read all tokens again.
        bidirectional_prompt: the tokens of a prompt see each other.
    """

    graph: nnx.GraphDef
    has_encoder: bool
    depth: int
    slots: int
    vocab_size: int
    cached: bool
    bidirectional_prompt: bool = False

    def prefill(
        self, weights: UnstackedWeights, prompts: PaddedTokens, sources: PaddedTokens | None = None
    ) -> tuple[State, Float[Array, "B V"]]:
        """Reads the prompts.

        Args:
            weights: result of `unstack_layers`.
            prompts: the first tokens of every row; for an encoder-decoder, those that the decoder
                reads.
            sources: what the encoder reads.

        Returns:
            the state after the prompts, and the logits of the next token.
        """
        model, memory = weights.merged(self.graph), None
        if self.has_encoder:
            memory = model.encode(sources.tokens, Context(sources.positions, causal=False, in_order=True))
        positions = None if memory is None else memory.positions
        if not self.cached:
            tokens = jnp.pad(prompts.tokens, [(0, 0), (0, self.slots - prompts.tokens.shape[1])])
            state = UncachedState(tokens, prompts.lengths, None if memory is None else memory.hidden, positions)
            return state, self._read_all(model, state)
        state = Cache(
            [{} for _ in range(self.depth)],
            prompts.lengths - 1,
            jnp.int32(prompts.tokens.shape[1] - 1),
            self.slots,
            positions,
        )
        context = Context(prompts.positions, causal=not self.bidirectional_prompt, in_order=True, cache=state)
        return state, self._logits(model, prompts.tokens, memory, context, prompts.lengths - 1)

    def step(
        self, weights: UnstackedWeights, state: State, tokens: Int[Array, " B"]
    ) -> tuple[State, Float[Array, "B V"]]:
        """Reads the next token of every row.

        Returns:
            the state after it, and the logits of the next token.
        """
        model = weights.merged(self.graph)
        if not self.cached:
            state = _appended(state, tokens)
            return state, self._read_all(model, state)
        state = state.following()
        context = Context(state.newest[:, None], cache=state)
        return state, self._logits(model, tokens[:, None], None, context, jnp.zeros_like(state.newest))

    def _read_all(self, model: nnx.Module, state: UncachedState) -> Float[Array, "B V"]:
        memory = None
        if state.memory is not None:
            repeats = state.tokens.shape[0] // state.memory.shape[0]
            memory = Memory(
                jnp.repeat(state.memory, repeats, axis=0),
                jnp.repeat(state.memory_positions, repeats, axis=0),
                padding_last=True,
            )
        context = Context(PaddedTokens(state.tokens, state.lengths).positions, in_order=True)
        return self._logits(model, state.tokens, memory, context, state.lengths - 1)

    def _logits(self, model, tokens, memory, context, last) -> Float[Array, "B V"]:
        hidden = model.decode(tokens, memory, context) if self.has_encoder else model(tokens, context)
        hidden = jnp.take_along_axis(hidden, last[:, None, None], axis=1)
        return model.logits(hidden, context)[:, 0, : self.vocab_size]


def _appended(state: UncachedState, tokens: Int[Array, " B"]) -> UncachedState:
    full = state.lengths == state.tokens.shape[1]
    shifted = jnp.where(full[:, None], jnp.roll(state.tokens, -1, axis=1), state.tokens)
    places = jnp.where(full, state.lengths - 1, state.lengths)
    rows = jnp.arange(tokens.shape[0])
    return replace(state, tokens=shifted.at[rows, places].set(tokens), lengths=places + 1)


def select_rows(state: State, rows: Int[Array, " N"]) -> State:
    """Returns the state of the given rows; the memory of cross-attention is unchanged."""
    if isinstance(state, UncachedState):
        return replace(state, tokens=state.tokens[rows], lengths=state.lengths[rows])
    return state.take(rows)
