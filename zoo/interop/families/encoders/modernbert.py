"""ModernBERT (Warner et al. 2024) of Hugging Face's transformers.

A pre-norm encoder with RoPE and GeGLU: every third layer, from the first on, sees all tokens, the
others a window, with another base of RoPE. The embedding is normalised, so the attention of the
first layer reads it as it is. `local_attention=128` lets a token see 64 on either side, 129 in all.

Its dropouts lie elsewhere than ours (inside the feed-forward layer, and after attention alone);
published files have none.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.encoders.bert import output_rules
from zoo.interop.settings.equivalents import SETTINGS, ConfigView
from zoo.interop.settings.importer import GATED_ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import layer_kind_fields, unpack_both_ropes
from zoo.interop.weights.mapping import Rule, Rules, fused_linear, layers, linear, norm

MODERNBERT = {
    "vocab_size": 50368, "hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 22,
    "num_attention_heads": 12, "hidden_activation": "gelu", "max_position_embeddings": 8192, "initializer_range": 0.02,
    "norm_eps": 1e-5, "norm_bias": False, "global_rope_theta": 160000.0, "attention_bias": False,
    "attention_dropout": 0.0, "global_attn_every_n_layers": 3, "local_attention": 128, "local_rope_theta": 10000.0,
    "embedding_dropout": 0.0, "mlp_bias": False, "mlp_dropout": 0.0, "decoder_bias": True, "classifier_bias": False,
    "classifier_activation": "gelu", "tie_word_embeddings": True,
}  # fmt: skip
DROPOUTS = ("attention_dropout", "embedding_dropout", "mlp_dropout")


def _layer_kinds(settings: SettingsReader) -> list[tuple[str, dict[str, Any]]]:
    """Returns for each layer the name of its kind and the fields of this kind."""
    theta = settings["global_rope_theta"]
    local_theta = theta if settings["local_rope_theta"] is None else settings["local_rope_theta"]
    window, period = 2 * (settings["local_attention"] // 2) + 1, settings["global_attn_every_n_layers"]
    whole = {"attention.window": 0, "attention.input_norm": True, "position.theta": float(theta)}
    kinds = {
        "first": whole | {"attention.input_norm": False},
        "local": whole | {"attention.window": window, "position.theta": float(local_theta)},
        "global": whole,
    }
    names = ["local" if layer % period else "global" for layer in range(settings["num_hidden_layers"])]
    if (types := settings.get("layer_types")) is not None:
        table = {"sliding_attention": "local", "full_attention": "global"}
        if set(types) - set(table) or len(types) != len(names) or types[0] != "full_attention":
            settings.reject("layer_types", f"expected {len(names)} of {', '.join(table)}, full_attention first")
        names = [table.get(kind, "global") for kind in types]
    return [(name, kinds[name]) for name in ("first", *names[1:])]


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for ModernBertForMaskedLM."""
    settings = SettingsReader(unpack_both_ropes(hf, "local_rope_theta", "global_rope_theta"), MODERNBERT, "modernbert")
    fields = {
        "model.architecture": "encoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": settings["hidden_size"],
        "model.num_layers": settings["num_hidden_layers"],
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.embedding.norm": True,
        "model.norm.kind": "layernorm",
        "model.norm.placement": "pre",
        "model.norm.epsilon": settings["norm_eps"],
        "model.norm.bias": settings["norm_bias"],
        "model.position.kind": "rope",
        "model.attention.num_heads": settings["num_attention_heads"],
        "model.attention.bias": settings["attention_bias"],
        "model.ffn.hidden_dim": settings["intermediate_size"],
        "model.ffn.bias": settings["mlp_bias"],
        "model.head.transform": True,
        "model.head.transform_bias": settings["classifier_bias"],
        "model.head.bias": settings["decoder_bias"],
        "model.init.std": settings["initializer_range"],
        "objective.kind": "masked",
        "data.sequence_length": settings["max_position_embeddings"],
    } | settings.choose("hidden_activation", GATED_ACTIVATIONS)
    settings.expect(
        settings["hidden_activation"],
        classifier_activation="differs from hidden_activation; layers and head have one activation here",
    )
    settings.expect(0, **dict.fromkeys(DROPOUTS, "expected 0: the class drops out elsewhere than this library"))
    fields |= layer_kind_fields(_layer_kinds(settings))
    settings.finish()
    return fields


def encoder_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of everything below the head."""

    def layer(config: ResolvedConfig) -> Rules:
        at, attention, ffn = "model.layers.{layer}", config.attention, config.ffn
        width = attention.num_heads * attention.head_dim
        return [
            *(norm("attention_norm", f"{at}.attn_norm", config) if attention.input_norm else ()),
            *fused_linear(
                [f"attention/{name}" for name in ("query", "key", "value")],
                f"{at}.attn.Wqkv",
                [width] * 3,
                attention.bias,
            ),
            *linear("attention/output", f"{at}.attn.Wo", attention.bias),
            *norm("ffn_norm", f"{at}.mlp_norm", config),
            *fused_linear(["ffn/gate", "ffn/up"], f"{at}.mlp.Wi", [ffn.hidden_dim] * 2, ffn.bias),
            *linear("ffn/down", f"{at}.mlp.Wo", ffn.bias),
        ]

    return [
        Rule("model.embeddings.tok_embeddings.weight", ("embedding",)),
        *norm("embedding_norm", "model.embeddings.norm", config),
        *layers(config, layer),
        *norm("final_norm", "model.final_norm", config),
    ]


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of ModernBertForMaskedLM."""
    output = output_rules(config, "model.embeddings.tok_embeddings.weight", "decoder")
    return [
        *encoder_rules(config),
        *linear("head/dense", "head.dense", config.head.transform_bias),
        *norm("head/norm", "head.norm", config),
        *(rule for rule in output if config.head.bias or rule.name != "decoder.bias"),
    ]


def _period(view: ConfigView) -> int:
    """Returns the distance of layers that see all tokens, the first of which is layer 0."""
    whole = [layer for layer, window in enumerate(view.windows) if layer and not window]
    return whole[0] if whole else view.model.num_layers


CUSTOM = {
    "norm_eps": SETTINGS["layer_norm_eps"],
    "norm_bias": lambda view: view.model.norm.bias,
    "global_rope_theta": SETTINGS["rope_theta"],
    "local_rope_theta": SETTINGS["rope_local_base_freq"],
    "global_attn_every_n_layers": _period,
    "local_attention": lambda view: max(max(view.windows) - 1, 0) or MODERNBERT["local_attention"],
    "decoder_bias": lambda view: view.model.head.bias,
    "classifier_bias": lambda view: view.model.head.transform and view.model.head.transform_bias,
    "classifier_activation": SETTINGS["hidden_activation"],
}
CLASSES = {
    "ModernBertForMaskedLM": Importer(
        read_config, rules, MODERNBERT, model_type="modernbert", prefix="model", custom_settings=CUSTOM
    )
}
