"""Position schemes behind one interface of four hooks; each scheme implements those it needs.

`embed` adds vectors to the token embeddings, `rotate` rotates queries and keys, `score_bias` adds
to the attention scores, `value_bias` adds to the output of attention. Positions are always arrays
in which -1 marks padding, so packing, padding and caches need no special case. Schemes that
add to the embedding belong to the model, the others to each attention layer, which may differ.
"""

from zoo.config import ResolvedConfig
from zoo.config.fields import EMBEDDED_POSITIONS
from zoo.config.kinds import POSITION_KINDS
from zoo.layers.position.absolute import sinusoid
from zoo.layers.position.base import Position
from zoo.layers.position.relative import alibi_slopes
from zoo.layers.position.rope import rotate_pairs

__all__ = ["Position", "alibi_slopes", "make_attention_position", "make_embedded_position", "rotate_pairs", "sinusoid"]


def make_embedded_position(config: ResolvedConfig) -> Position:
    """Builds the part of a scheme that belongs to the model: it adds to the embedding, or is a
    table that all layers share.
    """
    kind = config.position.kind
    shared = kind == "relative_bias" and config.position.shared
    return POSITION_KINDS.code_of(kind)(config) if shared or kind in EMBEDDED_POSITIONS else Position(config)


def make_attention_position(config: ResolvedConfig) -> Position:
    """Builds the part of a scheme that belongs to an attention layer."""
    kind = config.position.kind
    shared = kind == "relative_bias" and config.position.shared
    return Position(config) if shared or kind in EMBEDDED_POSITIONS else POSITION_KINDS.code_of(kind)(config)
