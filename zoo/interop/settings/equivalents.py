"""The values of other libraries' settings for a config: one table for all classes, by name.

`zoo.interop.config_export` fills in a class's settings from this table and reads the result back
with the class's importer, which decides whether the config could be expressed. So a function here
may assume the properties of its class: if they do not hold, reading back shows it.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from zoo.config import AUTO, GATED, ResolvedConfig, layer_kind, side
from zoo.config.kinds import activation_of, unit_kind


class ConfigView:
    """A resolved config as the settings are computed from it.

    Args:
        config: the config.
        given: settings that the model was imported with; they are kept where the config does not
            determine them.

    Attributes:
        model: the `model` part; of an encoder-decoder, that of the encoder.
        decoder: the decoder's; that of the whole model if there are no sides.
        layers: the `model` part as each layer sees it.
        length: tokens per row.
    """

    def __init__(self, config: ResolvedConfig, given: Mapping[str, Any]):
        both = config.model.architecture == "encoder_decoder"
        self.config, self.given, self.length = config, given, config.data.sequence_length
        self.model = side(config.model, "encoder") if both else config.model
        self.decoder = side(config.model, "decoder") if both else config.model
        pattern = config.model.layers.pattern
        kinds = {name: layer_kind(config.model, name) for name in pattern}
        self.layers = [
            kinds[pattern[layer % len(pattern)]] if pattern else self.model for layer in range(self.model.num_layers)
        ]

    @property
    def whole(self) -> ResolvedConfig:
        """The `model` part of the whole model."""
        return self.config.model

    @property
    def windows(self) -> list[int]:
        """Attention window of each layer in keys; 0 for all."""
        return [layer.attention.window for layer in self.layers]

    def theta(self, local: bool) -> float:
        """Returns RoPE's base in the first rotary layer with a window, or without one.

        Args:
            local: with a window. If there is no such layer, any rotary layer is taken.
        """
        turned = [layer for layer in self.layers if layer.position.kind == "rope"] or self.layers
        chosen = [layer for layer in turned if (layer.attention.window > 0) == local]
        return (chosen or turned)[0].position.theta

    def rotary(self) -> ResolvedConfig:
        """Returns the position fields of a rotary layer, without a window if possible."""
        turned = [layer for layer in self.layers if layer.position.kind == "rope"] or self.layers
        return next((layer for layer in turned if not layer.attention.window), turned[0]).position


def hidden_dim(model: ResolvedConfig) -> int:
    """Returns F as it is built, including the matching of parameters; 4 D without feed-forward layers,
    which classes that have them refuse by their kind.
    """
    from zoo.layers.feedforward import hidden_dim as built

    return 4 * model.dim if model.ffn.hidden_dim == AUTO else built(model)


def activation(view: ConfigView, tanh: str = "gelu_new") -> str:
    """Returns the name of the feed-forward's activation.

    Args:
        view: the config.
        tanh: the class's name of GELU with the tanh approximation.
    """
    # A kind with another activation is refused by its name, so any value serves here.
    ffn = view.model.ffn
    name = activation_of(unit_kind(ffn.kind, ffn.experts.kind)) or "relu"
    return tanh if name == "gelu" and view.model.ffn.gelu_approximation == "tanh" else name


def positions(view: ConfigView) -> int:
    """Returns the number of positions.

    This is the number of rows of a learned table, of distances, or the length that dynamic RoPE
    scaling starts from. If it changes nothing, it is the imported value, or else the length of a
    row.
    """
    position = view.model.position
    if position.kind == "learned":
        return position.max_length + position.offset
    if position.kind == "shaw":
        return position.clip + 1
    if view.rotary().kind == "rope" and view.rotary().scaling.kind == "dynamic":
        return view.rotary().scaling.original_length
    return next(
        (view.given[name] for name in ("max_position_embeddings", "n_positions", "max_seq_len") if name in view.given),
        view.length,
    )


def rope_scaling(view: ConfigView) -> dict[str, Any] | None:
    """Returns the setting `rope_scaling`."""
    position = view.rotary()
    if position.kind != "rope" or position.scaling.kind == "none":
        return None
    scaling = position.scaling
    found = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind in ("yarn", "llama3"):
        low, high = {"yarn": ("beta_slow", "beta_fast"), "llama3": ("low_freq_factor", "high_freq_factor")}[
            scaling.kind
        ]
        found |= {"original_max_position_embeddings": scaling.original_length, low: scaling.low, high: scaling.high}
    if scaling.kind == "yarn" and not scaling.truncate:
        found["truncate"] = False
    if scaling.kind == "yarn" and scaling.sharpening:
        found["attention_factor"] = scaling.sharpening
    return found


def window(view: ConfigView) -> int | None:
    """Returns the window of the layers that have one."""
    return max(view.windows, default=0) or None


def query_scalar(view: ConfigView) -> float:
    """Returns q for scores scaled by q^-0.5, as a whole number if possible."""
    scalar = view.model.attention.scale**-2
    return round(scalar) if math.isclose(round(scalar) ** -0.5, view.model.attention.scale, rel_tol=1e-15) else scalar


def scales_scores(view: ConfigView) -> bool:
    """Returns whether scores are divided by the square root of the head dimension."""
    return math.isclose(view.model.attention.scale, view.model.attention.head_dim**-0.5)


def feed_forward_proj(view: ConfigView) -> str:
    """Returns T5's name of the feed-forward; "gated-gelu" means the tanh approximation."""
    gated, name = view.model.ffn.kind in GATED, activation(view)
    return f"gated-{name.removesuffix('_new')}" if gated else name


def given_tie(view: ConfigView) -> bool:
    """Returns `tie_word_embeddings` of a class without a head, to which it means nothing."""
    return view.given.get("tie_word_embeddings", True)


Setting = Callable[[ConfigView], Any]


def of_layers(kind: str, ours: str, theirs: str, defaults: Mapping[str, Any]) -> Setting:
    """Returns a setting of the first layer with a kind of attention. Without such a layer it changes
    nothing, and is what was imported, or else the class's default.

    Args:
        kind: of attention.
        ours, theirs: names of the field of attention and of the setting.
        defaults: the class's settings and their default values.
    """

    def setting(view: ConfigView) -> Any:
        found = next((layer for layer in view.layers if layer.attention.kind == kind), None)
        return view.given.get(theirs, defaults[theirs]) if found is None else found.attention[ours]

    return setting


SETTINGS: dict[str, Setting] = {
    # Sizes
    **dict.fromkeys(("vocab_size", "num_tokens"), lambda view: view.model.vocab_size),
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "dim"), lambda view: view.model.dim),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "depth"),
                    lambda view: view.model.num_layers),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers"), lambda view: view.decoder.num_layers),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "heads"),
                    lambda view: view.model.attention.num_heads),
    "decoder_attention_heads": lambda view: view.decoder.attention.num_heads,
    "num_key_value_heads": lambda view: view.model.attention.num_kv_heads,
    **dict.fromkeys(("head_dim", "d_kv", "dim_head"), lambda view: view.model.attention.head_dim),
    **dict.fromkeys(("intermediate_size", "hidden_dim", "d_ff", "n_inner", "encoder_ffn_dim", "ffn_dim"),
                    lambda view: hidden_dim(view.model)),
    "decoder_ffn_dim": lambda view: hidden_dim(view.decoder),
    "type_vocab_size": lambda view: view.model.embedding.segments,
    # Feed-forward and norms
    **dict.fromkeys(("hidden_act", "activation_function", "activation"), activation),
    "hidden_activation": lambda view: activation(view, "gelu_pytorch_tanh"),
    "feed_forward_proj": feed_forward_proj,
    **dict.fromkeys(("layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps", "norm_eps"),
                    lambda view: view.model.norm.epsilon),
    "use_parallel_residual": lambda view: view.model.parallel != "none",
    **dict.fromkeys(("attention_bias", "qkv_bias", "use_qkv_bias", "attn_out_bias"),
                    lambda view: view.model.attention.bias),
    "mlp_bias": lambda view: view.model.ffn.bias,
    # Positions
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len"), positions),
    **dict.fromkeys(("rope_theta", "rotary_emb_base"), lambda view: view.theta(local=False)),
    "rope_local_base_freq": lambda view: view.theta(local=True),
    "rope_scaling": rope_scaling,
    **dict.fromkeys(("rotary_pct", "partial_rotary_factor"), lambda view: view.rotary().fraction),
    "rotary_dim": lambda view: round(view.model.position.fraction * view.model.attention.head_dim),
    "no_rope_layers": lambda view: [int(layer.position.kind != "none") for layer in view.layers],
    "position_embedding_type": lambda view: "relative_key" if view.model.position.kind == "shaw" else "absolute",
    "sinusoidal_pos_embds": lambda view: view.model.position.kind == "sinusoidal",
    "relative_attention_num_buckets": lambda view: view.model.position.buckets,
    "relative_attention_max_distance": lambda view: view.model.position.max_distance,
    # Attention
    "sliding_window": window,
    "use_sliding_window": lambda view: window(view) is not None,
    "layer_types": lambda view: ["sliding_attention" if keys else "full_attention" for keys in view.windows],
    "attention_window": lambda view: [keys - 1 for keys in view.windows],
    "query_pre_attn_scalar": query_scalar,
    "scale_attn_weights": scales_scores,
    "attn_logit_softcapping": lambda view: view.model.attention.softcap or None,
    "nb_features": lambda view: None if view.model.attention.features == "auto" else view.model.attention.features,
    "feature_redraw_interval": lambda view: view.model.attention.redraw_every or None,
    "causal": lambda view: view.model.architecture == "decoder",
    # Embedding and head
    **dict.fromkeys(("tie_word_embeddings", "tie_embed"), lambda view: view.model.tie_embeddings),
    "scale_embedding": lambda view: view.model.embedding.scale == "sqrt_dim",
    "final_logit_softcapping": lambda view: view.model.head.softcap or None,
    # Training
    **dict.fromkeys(("dropout", "dropout_rate", "hidden_dropout", "hidden_dropout_prob", "resid_pdrop",
                     "embd_pdrop", "emb_pdrop"),
                    lambda view: view.model.dropout),
    **dict.fromkeys(("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob"),
                    lambda view: view.model.attention.dropout),
    **dict.fromkeys(("initializer_range", "init_std"),
                    lambda view: view.model.init.std if view.model.init.kernel == "normal" else 0.02),
}  # fmt: skip
