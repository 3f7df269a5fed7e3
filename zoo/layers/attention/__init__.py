"""Token mixers: the kinds of attention, by the name of `model.attention.kind`.

`token_mixer` is the contract. `projections` makes queries, keys and values and their output; a
subclass for each kind weighs the values, and stores what decoding needs in the cache.
"""

from zoo.config import ResolvedConfig
from zoo.layers.attention.forgetting_attention import ForgettingAttention
from zoo.layers.attention.latent_attention import LatentAttention
from zoo.layers.attention.performer_attention import PerformerAttention
from zoo.layers.attention.softmax_attention import SoftmaxAttention
from zoo.layers.attention.token_mixer import SharedScores, TokenMixer, shared_scores
from zoo.layers.attention.unnormalised_attention import DifferentialAttention, SigmoidAttention, SoftmaxPlusOneAttention
from zoo.layers.attention.value_mixing import ValueEmbeddingAttention, ValueResidualAttention

__all__ = ["ATTENTIONS", "SharedScores", "TokenMixer", "make_attention", "shared_scores"]

ATTENTIONS: dict[str, type[TokenMixer]] = {
    "softmax": SoftmaxAttention,
    "softmax_plus_one": SoftmaxPlusOneAttention,
    "sigmoid": SigmoidAttention,
    "forgetting": ForgettingAttention,
    "differential": DifferentialAttention,
    "latent": LatentAttention,
    "value_residual": ValueResidualAttention,
    "value_embedding": ValueEmbeddingAttention,
    "performer": PerformerAttention,
}


def make_attention(config: ResolvedConfig, cross: bool = False, gain: float = 1.0) -> TokenMixer:
    """Builds the token mixer that `attention.kind` names; see `TokenMixer` for the arguments."""
    return ATTENTIONS[config.attention.kind](config, cross, gain)
