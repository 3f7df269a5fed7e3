"""LLaMA (Touvron et al. 2023) and models of transformers with its structure and names.

LlamaForCausalLM     pre-norm, RMSNorm, RoPE in half layout, SwiGLU; RoPE scaling
MistralForCausalLM   a sliding window of W keys, including the query's own
MinistralForCausalLM Mistral with layers of both kinds, and a width of heads of its own
SmolLM3ForCausalLM   no positions in every fourth layer
Qwen2ForCausalLM     biases in the query, key and value projections; that of the output, which
                     the class lacks, is 0
Qwen3ForCausalLM     query and key norms, per head
Olmo2ForCausalLM     query and key norms over all heads; norms after the sublayers
Olmo3ForCausalLM     Olmo2 with a sliding window in three of four layers; only the others' RoPE is
                     scaled
DiffLlamaForCausalLM LLaMA with differential attention
"""

from collections.abc import Callable, Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.settings.importer import GATED_ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import (
    layer_kind_fields,
    rope_fields,
    unpack_both_ropes,
    unpack_rope_parameters,
    window_layers,
)
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Rules, layers, linear, norm, output_head

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
MINISTRAL = MISTRAL | {"layer_types": None}
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
QWEN2 = {name: value for name, value in QWEN3.items() if name not in ("attention_bias", "head_dim")}
OLMO2 = COMMON | {"vocab_size": 50304, "rms_norm_eps": 1e-5}
OLMO3 = OLMO2 | {"sliding_window": 4096, "layer_types": None}
DIFF_LLAMA = COMMON | {
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "rms_norm_eps": 1e-5, "lambda_std_dev": 0.1
}  # fmt: skip
LAMBDAS = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")
# The norms of a layer, here and there, by placement.
NORMS = {
    "pre": {"attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"},
    "reordered": {"attention_norm": "post_attention_layernorm", "ffn_norm": "post_feedforward_layernorm"},
    "sandwich": {"attention_norm": "input_layernorm", "attention_output_norm": "post_attention_layernorm",
                 "ffn_norm": "pre_feedforward_layernorm", "ffn_output_norm": "post_feedforward_layernorm"},
}  # fmt: skip
# "reordered" puts the norm behind the sublayer, inside the residual connection.
OLMO = {"model.norm.placement": "reordered", "model.attention.qk_norm": "full"}


def common(
    settings: SettingsReader,
    activation: str = "hidden_act",
    epsilon: str = "rms_norm_eps",
    activations: Mapping[str, Mapping[str, Any]] = GATED_ACTIVATIONS,
) -> dict[str, Any]:
    """Returns the fields that all of them share.

    Positions differ; a setting that a class lacks has its neutral value.

    Args:
        settings: the config's settings.
        activation: the setting that names the activation.
        epsilon: the setting of the norms' epsilon; "" for a class without it, whose epsilon is 1e-5.
        activations: its values, and the fields of each.
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
        "model.norm.epsilon": settings.get(epsilon, 1e-5),
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": settings["num_key_value_heads"] or heads,
        "model.attention.bias": bool(bias),
        "model.attention.dropout": settings["attention_dropout"],
        "model.ffn.hidden_dim": settings["intermediate_size"],
        "model.ffn.bias": bool(settings.get("mlp_bias", False)),
        "model.init.std": settings["initializer_range"],
    } | dict(settings.choose(activation, activations))
    if (head_dim := settings.get("head_dim")) is not None:
        fields["model.attention.head_dim"] = head_dim
    return fields


def rope(settings: SettingsReader) -> dict[str, Any]:
    """Returns the fields of the positions, the same in all layers."""
    return rope_fields(
        settings, settings["rope_theta"], settings.get("rope_scaling"), settings["max_position_embeddings"]
    )


def biases_of_inputs(biased: bool) -> dict[str, bool]:
    """Returns the fields of a class whose queries, keys and values may have biases, and whose output
    matrix never has one.
    """
    return {"model.attention.bias": True, "model.attention.output_bias": False} if biased else {}


def llama_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for LlamaForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), LLAMA, "llama")
    fields = common(settings) | rope(settings)
    settings.finish()
    return fields


def mistral_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for MistralForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), MISTRAL, "mistral")
    fields = common(settings) | rope(settings) | {"model.attention.window": settings["sliding_window"] or 0}
    settings.expect(False, None, attention_bias="this class has no such biases")
    settings.finish()
    return fields


def ministral_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for MinistralForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), MINISTRAL, "ministral")
    depth, window = settings["num_hidden_layers"], settings["sliding_window"]
    types = ["full_attention" if window is None else "sliding_attention"] * depth
    fields = common(settings) | rope(settings) | layer_kind_fields(window_layers(settings, types, window))
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
    fields = common(settings) | rope(settings) | layer_kind_fields(described)
    settings.finish()
    return fields


def qwen2_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Qwen2ForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), QWEN2, "qwen2")
    fields = common(settings) | rope(settings) | _last_layers_local(settings) | biases_of_inputs(True)
    settings.finish()
    return fields


def qwen3_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Qwen3ForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), QWEN3, "qwen3")
    fields = common(settings) | rope(settings) | _last_layers_local(settings) | {"model.attention.qk_norm": "head"}
    settings.finish()
    return fields


def _last_layers_local(settings: SettingsReader) -> dict[str, Any]:
    """Returns the fields of the windows, which layers from `max_window_layers` on may have."""
    depth, window, first = settings["num_hidden_layers"], settings["sliding_window"], settings["max_window_layers"]
    window = window if settings["use_sliding_window"] else None
    types = [
        "sliding_attention" if window is not None and layer >= first else "full_attention" for layer in range(depth)
    ]
    return layer_kind_fields(window_layers(settings, types, window))


def olmo2_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Olmo2ForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), OLMO2, "olmo2")
    fields = common(settings) | rope(settings) | OLMO
    settings.finish()
    return fields


def olmo3_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Olmo3ForCausalLM."""
    # transformers 4 has no such setting: all layers have one base there.
    settings = SettingsReader(unpack_both_ropes(hf, "local_rope_theta"), OLMO3, "olmo3")
    theta, local_theta = settings["rope_theta"], settings.get("local_rope_theta")
    types = [
        "full_attention" if layer % 4 == 3 else "sliding_attention" for layer in range(settings["num_hidden_layers"])
    ]
    scaled = {path.removeprefix("model."): value for path, value in rope(settings).items() if ".scaling." in path}
    turned = {"global": scaled, "local": {} if local_theta in (None, theta) else {"position.theta": local_theta}}
    described = [
        (name, changes | turned[name]) for name, changes in window_layers(settings, types, settings["sliding_window"])
    ]
    fields = common(settings) | rope_fields(settings, theta, None, 0) | OLMO
    settings.finish()
    return fields | layer_kind_fields(described)


def diff_llama_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for DiffLlamaForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), DIFF_LLAMA, "diffllama")
    fields = common(settings) | rope(settings) | {"model.attention.kind": "differential"}
    settings.expect(0.1, lambda_std_dev="the vectors of lambda have a standard deviation of 0.1 here")
    settings.finish()
    return fields


def _query_key_norm(name: str, path: str) -> Rule:
    return Rule(f"{name}_norm.weight", (path,))


def gated(config: ResolvedConfig) -> Rules:
    """Returns the rules of a gated feed-forward layer with a tensor for each of its matrices."""
    return [
        rule
        for name in ("gate", "up", "down")
        for rule in linear(f"ffn/{name}", f"model.layers.{{layer}}.mlp.{name}_proj", config.ffn.bias)
    ]


def rules(
    config: ResolvedConfig,
    norms: Mapping[str, str] | None = None,
    feed_forward: Callable[[ResolvedConfig], Rules] = gated,
    query_key_norm: Callable[[str, str], Rule] = _query_key_norm,
) -> Rules:
    """Returns the rules of all these classes, of Gemma's and of those in `decoders`; the config
    decides which apply.

    Args:
        config: the `model` part.
        norms: names of a layer's norms, here and there; None for those of LLaMA, OLMo 2 or Gemma 2,
            by placement.
        feed_forward: from the config of a layer to the rules of its feed-forward layer.
        query_key_norm: from the start of a tensor's name and a path to the rule of the scale of
            queries or keys.
    """
    norms = NORMS[config.norm.placement] if norms is None else norms

    def layer(config: ResolvedConfig) -> Rules:
        at, attention = "model.layers.{layer}", config.attention
        qk_norms = ("query", "key") if attention.qk_norm != "none" and attention.qk_norm_scale else ()
        lambdas = LAMBDAS if attention.kind == "differential" else ()
        return [
            *(rule for ours, theirs in norms.items() for rule in norm(ours, f"{at}.{theirs}", config)),
            *(
                rule
                for name in ("query", "key", "value", "output")
                for rule in linear(
                    f"attention/{name}",
                    f"{at}.self_attn.{name[0]}_proj",
                    attention.bias and (attention.output_bias or name != "output"),
                )
            ),
            *(query_key_norm(f"{at}.self_attn.{name[0]}", f"attention/{name}_norm/scale") for name in qk_norms),
            *(Rule(f"{at}.self_attn.{name}", (f"attention/{name}",)) for name in lambdas),
            *feed_forward(config),
        ]

    return [
        Rule("model.embed_tokens.weight", ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "model.norm", config),
        output_head(config, "model.embed_tokens.weight"),
        IgnoredTensors(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"),
    ]


CLASSES = {
    "LlamaForCausalLM": Importer(llama_config, rules, LLAMA, model_type="llama", prefix="model"),
    "MistralForCausalLM": Importer(mistral_config, rules, MISTRAL, model_type="mistral", prefix="model"),
    "MinistralForCausalLM": Importer(ministral_config, rules, MINISTRAL, model_type="ministral", prefix="model"),
    "SmolLM3ForCausalLM": Importer(smollm3_config, rules, SMOLLM3, model_type="smollm3", prefix="model"),
    "Qwen2ForCausalLM": Importer(qwen2_config, rules, QWEN2, model_type="qwen2", prefix="model"),
    "Qwen3ForCausalLM": Importer(qwen3_config, rules, QWEN3, model_type="qwen3", prefix="model"),
    "Olmo2ForCausalLM": Importer(olmo2_config, rules, OLMO2, model_type="olmo2", prefix="model"),
    "Olmo3ForCausalLM": Importer(olmo3_config, rules, OLMO3, model_type="olmo3", prefix="model"),
    "DiffLlamaForCausalLM": Importer(diff_llama_config, rules, DIFF_LLAMA, model_type="diffllama", prefix="model"),
}
