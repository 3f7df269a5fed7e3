"""Token mixers: the kinds of attention, by the name of `model.attention.kind`.

`token_mixer` is the contract. `projections` makes queries, keys and values and their output; a
subclass for each kind weighs the values, and stores what decoding needs in the cache.
"""

from zoo.config import ResolvedConfig
from zoo.config.fields import EMBEDDED_POSITIONS
from zoo.errors import ConfigError
from zoo.layers.attention.performer_attention import PerformerAttention
from zoo.layers.attention.softmax_attention import SoftmaxAttention
from zoo.layers.attention.token_mixer import SharedScores, TokenMixer, shared_scores

__all__ = ["ATTENTIONS", "SharedScores", "TokenMixer", "make_attention", "shared_scores"]

ATTENTIONS: dict[str, type[TokenMixer]] = {"softmax": SoftmaxAttention, "performer": PerformerAttention}


def make_attention(config: ResolvedConfig, cross: bool = False, gain: float = 1.0) -> TokenMixer:
    """Builds the token mixer that `attention.kind` names; see `TokenMixer` for the arguments.

    Raises:
        ConfigError: the kind ignores something that the config asks for.
    """
    kind, position = config.attention.kind, config.position.kind
    mixer = ATTENTIONS[kind]
    problems = []
    if cross and not mixer.can_cross:
        problems.append(
            f"model.attention.kind={kind} cannot read an encoder's output; set another kind under model.decoder"
        )
    if not mixer.uses_positions and position not in ("none", *EMBEDDED_POSITIONS):
        problems.append(
            f"model.attention.kind={kind} does not read model.position.kind={position}; use none or "
            f"{' or '.join(EMBEDDED_POSITIONS)}"
        )
    if not mixer.uses_window and config.attention.window:
        problems.append(
            f"model.attention.kind={kind} does not read model.attention.window={config.attention.window}; set it to 0"
        )
    if problems:
        raise ConfigError(problems)
    return mixer(config, cross, gain)
