"""The reference implementation: plain float64 numpy, written from the papers' equations.

Nothing here comes from `zoo`.
"""

from tests.reference.layers import (
    activation,
    activation_name,
    attention,
    attention_layer,
    attention_row,
    batch_moments,
    chosen_experts,
    feed_forward,
    head_norm,
    layer_norm,
    linear,
    mixed_values,
    mixture_of_experts,
    norm,
    rms_norm,
)
from tests.reference.model import (
    batch_logits,
    block,
    deepnorm_alpha,
    embed,
    encoder_decoder_logits,
    head,
    hidden_states,
    layer,
    logits,
    tower,
)
from tests.reference.rows import Rows, counting, overlaid, visible

__all__ = [
    "Rows",
    "activation",
    "activation_name",
    "attention",
    "attention_layer",
    "attention_row",
    "batch_logits",
    "batch_moments",
    "block",
    "chosen_experts",
    "counting",
    "deepnorm_alpha",
    "embed",
    "encoder_decoder_logits",
    "feed_forward",
    "head",
    "head_norm",
    "hidden_states",
    "layer",
    "layer_norm",
    "linear",
    "logits",
    "mixed_values",
    "mixture_of_experts",
    "norm",
    "overlaid",
    "rms_norm",
    "tower",
    "visible",
]
