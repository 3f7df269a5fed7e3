"""Features that each implementation of attention supports."""

from typing import NamedTuple

_EVERY_PLATFORM = ("cpu", "gpu", "tpu")
_EVERY_WIDTH = range(1, 2**31)
_BOTH_TYPES = ("float32", "bfloat16")


# Features that a mask or a bias given as an array of T x S can express.
_ARRAYS = frozenset({"score", "documents", "prefix", "padding", "centred_window", "any_order"})
_ALL_SCORES = frozenset({"query_score", "row_score"})


class AttentionSupport(NamedTuple):
    """Features, platforms and types that an implementation of attention supports.

    `resolve` refuses a config that asks for more; a run refuses a wrong platform when it starts.

    Attributes:
        features: any of
            score: an additive score term (ALiBi, T5's bias, Shaw's keys);
            query_score: one that depends on the queries (Shaw's keys);
            row_score: one that differs between rows, as where their positions do, or between blocks;
            value: vectors added to the values by position (Shaw);
            documents: isolation of packed documents;
            prefix: a bidirectional prefix: in a causal row, its keys are visible to earlier queries
                too;
            padding: keys that are padding, which includes keys of another sequence
                (cross-attention);
            dropout: dropout on the attention probabilities;
            value_width: values of another width than keys;
            softcap, sinks, dilations: the field of that name under model.attention, and for sinks
                softmax+1 too;
            weights: weights that are no softmax of the scores of one head (`weighting` of a class);
            centred_window: a window on both sides of the query;
            any_order: causal rows and windows whose tokens are not in the order of their positions.
        dtypes: types of activations.
        head_dims: widths of a head.
        platforms: platforms that it runs on.
        capability: least compute capability of an NVIDIA GPU, (major, minor); (0, 0) where any
            device does.
        widest_head: widest head on every such GPU.
        wide_heads_on: major compute capabilities of the GPUs that take wider ones too.
        least_tokens: shortest rows for which it is chosen by `auto`.
    """

    features: frozenset[str]
    dtypes: tuple[str, ...] = _BOTH_TYPES
    head_dims: range = _EVERY_WIDTH
    platforms: tuple[str, ...] = _EVERY_PLATFORM
    capability: tuple[int, int] = (0, 0)
    widest_head: int = 2**31
    wide_heads_on: tuple[int, ...] = ()
    least_tokens: int = 1


ATTENTION_SUPPORT = {
    "einsum": AttentionSupport(
        frozenset({"value", "dropout", "softcap", "sinks", "dilations", "weights", "value_width"} | _ARRAYS)
        | _ALL_SCORES
    ),
    "rows": AttentionSupport(frozenset({"softcap", "sinks", "weights", "value_width"} | _ARRAYS | _ALL_SCORES)),
    "xla": AttentionSupport(_ARRAYS | _ALL_SCORES),
    # NVIDIA's table of what cuDNN's attention supports: from Ampere on, with a backward pass for heads
    # of up to 128 everywhere and 256 on Hopper. Later GPUs have one only from cuDNN 9.23 on.
    "cudnn": AttentionSupport(
        _ARRAYS, ("bfloat16",), range(8, 257, 8), ("gpu",), capability=(8, 0), widest_head=128, wide_heads_on=(9,)
    ),
    # Shorter rows would be filled up to a block, the least of which has 128 tokens.
    "splash": AttentionSupport(
        frozenset({"documents", "prefix", "padding", "centred_window", "softcap", "sinks", "value_width"}),
        platforms=("tpu",),
        least_tokens=128,
    ),
}
