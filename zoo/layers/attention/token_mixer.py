"""The contract of a block's first sublayer, which is the only one that moves information between
tokens.
"""

from collections.abc import Callable
from typing import NamedTuple

from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.context import Context
from zoo.layers.position import Position

SharedScores = Callable[[Array], Array]
"""Function of the key positions [B, S] that returns the score term common to all layers,
`[B, H, T, S]`.
"""


class HeadCounts(NamedTuple):
    """Numbers of distinct queries, keys and values of the heads of a layer."""

    queries: int
    keys: int
    values: int


class TokenMixer(nnx.Module):
    """Mixes the tokens of a row: attention, or anything else that a choice of
    `model.attention.kind` names (convolution, linear recurrence).

    A subclass is built abstractly, with `zoo.layers.parameter`, from these arguments. It reads the
    fields of `config.attention` that it needs. The traits of its `Kind`
    (`zoo/config/kinds/attention_kinds.py`) say what it can do with windows, positions, heads, isolated
    documents, a prefix or a memory; configs that ask for more are refused.

    Args:
        config: the `model` part, as this layer sees it.
        cross: the layer reads `Context.memory`, not its own sequence.
        gain: factor on the initial values of the weights that values pass through.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        del config, gain
        self.cross, self.part = cross, "cross_attention" if cross else "attention"

    def __call__(
        self, x: Float[Array, "B T D"], context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Float[Array, "B T D"]:
        """Mixes the tokens.

        Where `context.causal`, output t depends on tokens 0 .. t of its row; padding (position -1)
        enters no output. With `context.cache`, a pass over the prompt stores what later tokens need
        in `context.cache.entries[self.part]`, any `zoo.layers.cache.CacheEntry`. A later pass finds
        it there, reads the next token of every row [B, 1, D] with it, and replaces it.

        Args:
            x: the tokens.
            context: structure of the sequence, and for cross-attention the memory.
            shared: position bias that all layers share (e.g. T5). An array, or, when decoding from
                a cache, a function key positions -> array, since cache sizes differ by layer.
        """
        raise NotImplementedError

    @staticmethod
    def product_flops(layer: ResolvedConfig, queries: float, keys: float) -> float:
        """Returns the operations of one forward pass over a row beyond the products with weight
        matrices, which `zoo.models.cost` counts itself.

        Args:
            layer: the `model` part, as this layer sees it.
            queries: number of tokens of the row.
            keys: mean number of keys that a token sees.
        """
        raise NotImplementedError

    @staticmethod
    def cached_numbers(layer: ResolvedConfig) -> int:
        """Returns how many numbers a decoder's cache keeps of each token that it can still read; 0 for
        a mixer whose entry has one size, whatever the number of tokens.

        Args:
            layer: the `model` part, as this layer sees it.
        """
        del layer
        return 0

    @staticmethod
    def state_bytes(layer: ResolvedConfig) -> int:
        """Returns how many bytes a decoder's cache keeps of each sequence, whatever the number of its
        tokens: sums and states of one size.

        Args:
            layer: the `model` part, as this layer sees it.
        """
        del layer
        return 0

    cache_formula: str = "2 G K"
    """`cached_numbers` in the letters of the equations, for people."""

    @staticmethod
    def letters(layer: ResolvedConfig) -> dict[int, str]:
        """Returns {size: letter in the equation} of sizes that only this kind has, for the shapes of
        its parameters; zoo has letters for the sizes of a model and of its heads.
        """
        del layer
        return {}

    layer_name: str = "self-attention"
    """What a layer that reads its own sequence is called, for diagrams."""

    @staticmethod
    def head_counts(layer: ResolvedConfig, cross: bool = False) -> HeadCounts | None:
        """Returns the queries, keys and values of self- or cross-attention; None without them."""
        del layer, cross
        return None

    @staticmethod
    def read_window(layer: ResolvedConfig) -> int:
        """Returns how many of the last tokens an output depends on, its own token included, where rows
        are read from left to right; 0 for all of them.
        """
        return layer.attention.window

    @staticmethod
    def sharing(heads: int, groups: int) -> str:
        """Returns the name of the scheme by which H heads share G keys and values."""
        if groups == heads:
            return "multi-head (MHA)"
        return "multi-query (MQA)" if groups == 1 else "grouped-query (GQA)"

    @staticmethod
    def key_value_source(layer: ResolvedConfig) -> str:
        """Returns what the keys and values of all heads are from, such as the size of a vector, for
        diagrams; "" where they are computed from the layer's input.
        """
        del layer
        return ""


def shared_scores(position: Position, context: Context) -> Float[Array, "#B H T S"] | SharedScores | None:
    """Returns the term that a scheme shared by all layers adds to their scores: computed once per
    forward pass, or with a filled cache as a function of the keys.
    """
    if not position.has_score_bias:
        return None
    if context.cache is not None and context.cache.filled:
        return lambda key_positions: position.score_bias(None, context.positions, key_positions)
    return position.score_bias(None, context.positions, context.positions)
