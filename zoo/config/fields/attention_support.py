"""What each implementation of attention supports."""

from typing import NamedTuple

_EVERY_PLATFORM = ("cpu", "gpu", "tpu")
_EVERY_WIDTH = range(1, 2**31)
_BOTH_TYPES = ("float32", "bfloat16")


class AttentionSupport(NamedTuple):
    """What an implementation of attention supports.

    `resolve` refuses a config that asks for more; a run refuses a wrong platform when it starts.

    Attributes:
        features: any of
            score: an additive score term (ALiBi, T5's bias, Shaw's keys);
            value: vectors added to the values by position (Shaw);
            documents: isolation of packed documents;
            prefix: a bidirectional prefix: in a causal row, its keys are visible to earlier queries
                too;
            padding: keys that are padding, which includes keys of another sequence
                (cross-attention);
            dropout: dropout on the attention probabilities;
            value_width: values of another width than keys;
            softcap, sinks, dilations: the field of that name under model.attention.
        dtypes: types of activations.
        head_dims: widths of a head.
        platforms: platforms that it runs on.
    """

    features: frozenset[str]
    dtypes: tuple[str, ...] = _BOTH_TYPES
    head_dims: range = _EVERY_WIDTH
    platforms: tuple[str, ...] = _EVERY_PLATFORM


ATTENTION_SUPPORT = {
    "einsum": AttentionSupport(
        frozenset(
            {"score", "value", "documents", "prefix", "padding", "dropout", "softcap", "sinks", "dilations"}
            | {"value_width"}
        )
    ),
    "rows": AttentionSupport(frozenset({"score", "documents", "prefix", "padding", "softcap", "sinks", "value_width"})),
    "xla": AttentionSupport(frozenset({"score", "documents", "prefix", "padding"})),
    "cudnn": AttentionSupport(frozenset(), ("bfloat16",), range(8, 129, 8), ("gpu",)),
}
