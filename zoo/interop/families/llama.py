"""LLaMA (Touvron et al. 2023) and models of transformers with its structure and names.

LlamaForCausalLM     pre-norm, RMSNorm, RoPE in half layout, SwiGLU; RoPE scaling
MistralForCausalLM   a sliding window of W keys, including the query's own
SmolLM3ForCausalLM   no positions in every fourth layer
Qwen3ForCausalLM     query and key norms, per head
Olmo2ForCausalLM     query and key norms over all heads; norms after the sublayers
GemmaForCausalLM     norm scales stored minus one, embedding times sqrt(D), GeGLU
Gemma2ForCausalLM    norms before and after the sublayers, softcaps, every other layer local
Gemma3ForCausalLM    Gemma 2 without softcaps, five local layers per global one, with another
                     theta; query and key norms
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.errors import ConfigError
from zoo.interop.settings.equivalents import SETTINGS
from zoo.interop.settings.importer import GATED_ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import layer_kind_fields, rope_fields, unpack_rope_parameters, window_layers
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Rules, TiedTensor, layers, linear, norm

COMMON = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": None, "hidden_act": "silu", "initializer_range": 0.02,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "rope_scaling": None, "attention_bias": False,
    "attention_dropout": 0.0, "tie_word_embeddings": False, "head_dim": None, "max_position_embeddings": 2048,
}  # fmt: skip
LLAMA = COMMON | {"mlp_bias": False}
MISTRAL = {name: value for name, value in COMMON.items() if name not in ("rope_scaling", "attention_bias")} | {
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
}
SMOLLM3 = COMMON | {
    "vocab_size": 128256, "hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16,
    "num_key_value_heads": 4, "max_position_embeddings": 32768, "rope_theta": 2e6, "mlp_bias": False,
    "tie_word_embeddings": True, "layer_types": None, "use_sliding_window": False, "sliding_window": None,
    "no_rope_layers": None, "no_rope_layer_interval": 4,
}  # fmt: skip
QWEN3 = COMMON | {
    "vocab_size": 151936, "intermediate_size": 22016, "num_key_value_heads": 32, "head_dim": 128,
    "max_position_embeddings": 32768, "layer_types": None, "use_sliding_window": False, "sliding_window": 4096,
    "max_window_layers": 28,
}  # fmt: skip
OLMO2 = COMMON | {"vocab_size": 50304, "rms_norm_eps": 1e-5}
GEMMA = {name: value for name, value in COMMON.items() if name != "rope_scaling"} | {
    "vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": None, "max_position_embeddings": 8192, "tie_word_embeddings": True,
    "use_bidirectional_attention": None,
}  # fmt: skip
GEMMA2 = {name: value for name, value in GEMMA.items() if name not in ("hidden_act", "use_bidirectional_attention")} | {
    "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
    "num_key_value_heads": 4, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256,
    "sliding_window": 4096, "layer_types": None, "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0,
}  # fmt: skip
GEMMA3 = GEMMA2 | {
    "vocab_size": 262208, "max_position_embeddings": 131072, "rope_theta": 1e6, "rope_local_base_freq": 10000.0,
    "rope_scaling": None, "final_logit_softcapping": None, "attn_logit_softcapping": None,
    "use_bidirectional_attention": False, "sliding_window_pattern": 6,
}  # fmt: skip


def _common(settings: SettingsReader, activation: str = "hidden_act") -> dict[str, Any]:
    """Returns the fields that all of them share.

    Positions differ; a setting that a class lacks has its neutral value.
    """
    heads, bias = settings["num_attention_heads"], settings.get("attention_bias", False)
    fields = {
        "model.architecture": "decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": settings["hidden_size"],
        "model.num_layers": settings["num_hidden_layers"],
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.norm.kind": "rmsnorm",
        "model.norm.placement": "pre",
        "model.norm.epsilon": settings["rms_norm_eps"],
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": settings["num_key_value_heads"] or heads,
        "model.attention.bias": bool(bias),
        "model.attention.dropout": settings["attention_dropout"],
        "model.ffn.hidden_dim": settings["intermediate_size"],
        "model.ffn.bias": bool(settings.get("mlp_bias", False)),
        "model.init.std": settings["initializer_range"],
    } | settings.choose(activation, GATED_ACTIVATIONS)
    if (head_dim := settings["head_dim"]) is not None:
        fields["model.attention.head_dim"] = head_dim
    return fields


def _rope(settings: SettingsReader) -> dict[str, Any]:
    return rope_fields(
        settings, settings["rope_theta"], settings.get("rope_scaling"), settings["max_position_embeddings"]
    )


def llama_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for LlamaForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), LLAMA, "llama")
    fields = _common(settings) | _rope(settings)
    settings.finish()
    return fields


def mistral_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for MistralForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), MISTRAL, "mistral")
    fields = _common(settings) | _rope(settings) | {"model.attention.window": settings["sliding_window"] or 0}
    settings.expect(False, None, attention_bias="this class has no such biases")
    settings.finish()
    return fields


def smollm3_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for SmolLM3ForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), SMOLLM3, "smollm3")
    depth, window = settings["num_hidden_layers"], settings["sliding_window"]
    interval, turned = settings["no_rope_layer_interval"], settings["no_rope_layers"]
    turned = [(i + 1) % interval != 0 for i in range(depth)] if turned is None else turned
    local = settings["use_sliding_window"] and window is not None
    if len(turned) != depth:
        settings.reject("no_rope_layers", f"expected one for each of the {depth} layers")
        turned = [True] * depth
    types = window_layers(
        settings, ["sliding_attention" if local and not rotates else "full_attention" for rotates in turned], window
    )
    described = []
    for rotates, (name, changes) in zip(turned, types, strict=False):
        described.append((name, changes) if rotates else (f"{name}_nope", changes | {"position.kind": "none"}))
    fields = _common(settings) | _rope(settings) | layer_kind_fields(described)
    settings.finish()
    return fields


def qwen3_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Qwen3ForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), QWEN3, "qwen3")
    depth, window, first = settings["num_hidden_layers"], settings["sliding_window"], settings["max_window_layers"]
    window = window if settings["use_sliding_window"] else None
    types = [
        "sliding_attention" if window is not None and layer >= first else "full_attention" for layer in range(depth)
    ]
    fields = (
        _common(settings)
        | _rope(settings)
        | layer_kind_fields(window_layers(settings, types, window))
        | {"model.attention.qk_norm": "head"}
    )
    settings.finish()
    return fields


def olmo2_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Olmo2ForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), OLMO2, "olmo2")
    fields = (
        _common(settings) | _rope(settings) | {"model.norm.placement": "reordered", "model.attention.qk_norm": "full"}
    )
    settings.finish()
    return fields


def gemma_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for GemmaForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), GEMMA, "gemma")
    # `hidden_activation` takes the place of `hidden_act`, which the first files have wrong.
    activation = "hidden_act" if settings["hidden_activation"] is None else "hidden_activation"
    fields = _common(settings, activation) | _rope(settings) | _gemma(settings)
    settings.get("hidden_act")
    settings.finish()
    return fields


def _gemma(settings: SettingsReader) -> dict[str, Any]:
    settings.expect(None, False, use_bidirectional_attention="a decoder sees no later token")
    return {"model.norm.unit_offset": True, "model.embedding.scale": "sqrt_dim"}


def _gemma2(settings: SettingsReader) -> dict[str, Any]:
    settings.expect(
        None, settings["hidden_activation"], hidden_act="differs from hidden_activation, which is what the class reads"
    )
    return _gemma(settings) | {
        "model.norm.placement": "sandwich",
        "model.attention.scale": settings["query_pre_attn_scalar"] ** -0.5,
        "model.attention.softcap": settings["attn_logit_softcapping"] or 0.0,
        "model.head.softcap": settings["final_logit_softcapping"] or 0.0,
    }


def gemma2_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Gemma2ForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), GEMMA2, "gemma2")
    types = ["full_attention" if layer % 2 else "sliding_attention" for layer in range(settings["num_hidden_layers"])]
    fields = _common(settings, "hidden_activation") | _rope(settings) | _gemma2(settings)
    fields |= layer_kind_fields(window_layers(settings, types, settings["sliding_window"]))
    settings.finish()
    return fields


def _unpack_both_ropes(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces `rope_parameters`, here one dict for each type of layer."""
    both = hf.get("rope_parameters")
    if not isinstance(both, Mapping) or "full_attention" not in both:
        return unpack_rope_parameters(hf)
    local = unpack_rope_parameters({"rope_parameters": both.get("sliding_attention")}, "rope_local_base_freq")
    if "rope_scaling" in local:
        raise ConfigError(f"rope_parameters.sliding_attention={both['sliding_attention']!r}: expected no scaling")
    theirs = unpack_rope_parameters(dict(hf) | {"rope_parameters": both["full_attention"]})
    name, (theta,) = "rope_local_base_freq", local.values() or (None,)
    if theta is not None and theirs.get(name) not in (None, theta):
        raise ConfigError(
            f"rope_parameters.sliding_attention.rope_theta={theta!r}: differs from {name}={theirs[name]!r}"
        )
    return theirs | local


def gemma3_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Gemma3ForCausalLM, text only."""
    settings = SettingsReader(_unpack_both_ropes(hf), GEMMA3, "gemma3_text")
    # The class writes this setting under another name than it reads.
    period = settings["sliding_window_pattern"]
    period = settings.get("_sliding_window_pattern", period)
    types = [
        "sliding_attention" if (layer + 1) % period else "full_attention"
        for layer in range(settings["num_hidden_layers"])
    ]
    turned = {"global": _rope(settings), "local": rope_fields(settings, settings["rope_local_base_freq"], None, 0)}
    described = window_layers(settings, types, settings["sliding_window"])
    described = [
        (
            name,
            changes
            | {
                path.removeprefix("model."): value
                for path, value in turned[name].items()
                if path != "model.position.kind"
            },
        )
        for name, changes in described
    ]
    settings.expect(None, attn_logit_softcapping="this class has the setting, but caps no scores")
    fields = (
        _common(settings, "hidden_activation")
        | _gemma2(settings)
        | {"model.position.kind": "rope", "model.attention.qk_norm": "head"}
    )
    settings.finish()
    return fields | layer_kind_fields(described)


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of all these classes; the config decides which apply."""
    placement = config.norm.placement
    norms = {
        "pre": {"attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"},
        "reordered": {"attention_norm": "post_attention_layernorm", "ffn_norm": "post_feedforward_layernorm"},
        "sandwich": {"attention_norm": "input_layernorm", "attention_output_norm": "post_attention_layernorm",
                     "ffn_norm": "pre_feedforward_layernorm", "ffn_output_norm": "post_feedforward_layernorm"},
    }[placement]  # fmt: skip

    def layer(config: ResolvedConfig) -> Rules:
        at, attention = "model.layers.{layer}", config.attention
        qk_norms = ("query", "key") if attention.qk_norm != "none" else ()
        return [
            *(rule for ours, theirs in norms.items() for rule in norm(ours, f"{at}.{theirs}", config)),
            *(
                rule
                for name in ("query", "key", "value", "output")
                for rule in linear(f"attention/{name}", f"{at}.self_attn.{name[0]}_proj", attention.bias)
            ),
            *(Rule(f"{at}.self_attn.{name[0]}_norm.weight", (f"attention/{name}_norm/scale",)) for name in qk_norms),
            *(
                rule
                for name in ("gate", "up", "down")
                for rule in linear(f"ffn/{name}", f"{at}.mlp.{name}_proj", config.ffn.bias)
            ),
        ]

    return [
        Rule("model.embed_tokens.weight", ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "model.norm", config),
        TiedTensor("lm_head.weight", "model.embed_tokens.weight")
        if config.tie_embeddings
        else Rule("lm_head.weight", ("head/weights",)),
        IgnoredTensors(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"),
    ]


CLASSES = {
    "LlamaForCausalLM": Importer(llama_config, rules, LLAMA, model_type="llama", prefix="model"),
    "MistralForCausalLM": Importer(mistral_config, rules, MISTRAL, model_type="mistral", prefix="model"),
    "SmolLM3ForCausalLM": Importer(smollm3_config, rules, SMOLLM3, model_type="smollm3", prefix="model"),
    "Qwen3ForCausalLM": Importer(qwen3_config, rules, QWEN3, model_type="qwen3", prefix="model"),
    "Olmo2ForCausalLM": Importer(olmo2_config, rules, OLMO2, model_type="olmo2", prefix="model"),
    "GemmaForCausalLM": Importer(
        gemma_config,
        rules,
        GEMMA,
        model_type="gemma",
        prefix="model",
        custom_settings={"hidden_act": SETTINGS["hidden_activation"]},
    ),
    "Gemma2ForCausalLM": Importer(gemma2_config, rules, GEMMA2, model_type="gemma2", prefix="model"),
    "Gemma3ForCausalLM": Importer(gemma3_config, rules, GEMMA3, model_type="gemma3_text", prefix="model"),
}
