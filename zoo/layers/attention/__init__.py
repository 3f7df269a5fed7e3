"""Token mixers: the kinds of attention (`model.attention.kind`), one class each.

`token_mixer` is the contract. `projections` makes queries, keys and values and their output; a
subclass for each kind weighs the values, and stores what decoding needs in the cache.
"""

from zoo.config import ResolvedConfig
from zoo.config.kinds import ATTENTION_KINDS
from zoo.layers.attention.token_mixer import SharedScores, TokenMixer, shared_scores

__all__ = ["SharedScores", "TokenMixer", "make_attention", "shared_scores"]


def make_attention(config: ResolvedConfig, cross: bool = False, gain: float = 1.0) -> TokenMixer:
    """Builds the token mixer that `attention.kind` names; see `TokenMixer` for the arguments."""
    return ATTENTION_KINDS.code_of(config.attention.kind)(config, cross, gain)
