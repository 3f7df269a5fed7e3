"""LFM2 (Liquid AI 2025) of Hugging Face's transformers: layers of a gated short convolution, and some
of grouped-query attention with RoPE, whose queries and keys are normalised head by head.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.config.kinds import hidden_width
from zoo.interop.settings.equivalents import SETTINGS as SHARED
from zoo.interop.settings.equivalents import Setting, of_layers
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import (
    by_layer_type,
    layer_kind_fields,
    rename_settings,
    rope_fields,
    unpack_rope_parameters,
)
from zoo.interop.weights.mapping import (
    Rule,
    Rules,
    convolutions,
    fused_linear,
    layers,
    linear,
    norm,
    output_head,
    within,
)

LFM2 = {
    "vocab_size": 65536, "hidden_size": 2560, "intermediate_size": 12288, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 128000,
    "initializer_range": 0.02, "norm_eps": 1e-5, "tie_word_embeddings": True, "rope_theta": 1e6, "rope_scaling": None,
    "conv_bias": False, "conv_L_cache": 3, "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": True, "full_attn_idxs": None, "layer_types": None,
}  # fmt: skip
# Names in the files of the authors.
ALIASES = {"theta": "rope_theta", "block_ff_dim": "intermediate_size", "tie_embedding": "tie_word_embeddings"}
# Its norms and matrices, here and there.
NORMS = {"attention_norm": "operator_norm", "ffn_norm": "ffn_norm"}
MATRICES = {"gate": "w1", "down": "w2", "up": "w3"}
INPUTS = ("input_gate", "output_gate", "value")


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Lfm2ForCausalLM."""
    settings = SettingsReader(rename_settings(unpack_rope_parameters(hf), ALIASES), LFM2, "lfm2")
    heads = settings["num_attention_heads"]
    settings.expect(False, conv_bias="the convolution and its projections have no biases here")
    turned = rope_fields(
        settings, settings["rope_theta"], settings["rope_scaling"], settings["max_position_embeddings"]
    )
    kinds = {
        "conv": {"attention.kind": "gated_convolution", "attention.convolution_width": settings["conv_L_cache"]},
        "full": {path.removeprefix("model."): value for path, value in turned.items()}
        | {
            "attention.kind": "softmax",
            "attention.num_heads": heads,
            "attention.num_kv_heads": settings["num_key_value_heads"],
            "attention.qk_norm": "head",
            "attention.bias": False,
        },
    }
    fields = {
        "model.architecture": "decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": settings["hidden_size"],
        "model.num_layers": settings["num_hidden_layers"],
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.norm.kind": "rmsnorm",
        "model.norm.placement": "pre",
        "model.norm.epsilon": settings["norm_eps"],
        "model.position.kind": "none",
        "model.ffn.kind": "swiglu",
        "model.ffn.hidden_dim": _hidden_dim(settings),
        "model.ffn.bias": False,
        "model.init.std": settings["initializer_range"],
    } | layer_kind_fields([(name, kinds[name]) for name in _layer_types(settings)])
    settings.finish()
    return fields


def _hidden_dim(settings: SettingsReader) -> int:
    """Returns the width of the feed-forward layers, which the class may compute as LLaMA does."""
    hidden, adjusted = settings["intermediate_size"], settings["block_auto_adjust_ff_dim"]
    factor, multiple = settings["block_ffn_dim_multiplier"], settings["block_multiple_of"]
    if not adjusted:
        return hidden
    factor, multiple = (1.0, 1) if factor is None else (factor, multiple)
    return hidden_width("gelu", int(2 * hidden / 3), False, factor, multiple)


def _layer_types(settings: SettingsReader) -> list[str]:
    """Returns the name of the kind of each layer."""
    full = settings["full_attn_idxs"]
    default = [
        "full_attention" if full is None or layer in full else "conv" for layer in range(settings["num_hidden_layers"])
    ]
    return by_layer_type(settings, default, {"conv": "conv", "full_attention": "full"})


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of Lfm2ForCausalLM."""

    def layer(config: ResolvedConfig) -> Rules:
        at = "model.layers.{layer}"
        if config.attention.kind == "gated_convolution":
            mixer = convolution_rules(config, f"{at}.conv.")
        else:
            mixer = _attention_rules(f"{at}.self_attn.")
        return [
            *(rule for ours, theirs in NORMS.items() for rule in norm(ours, f"{at}.{theirs}", config)),
            *within("attention", mixer),
            *(
                rule
                for ours, theirs in MATRICES.items()
                for rule in linear(f"ffn/{ours}", f"{at}.feed_forward.{theirs}", bias=False)
            ),
        ]

    return [
        Rule("model.embed_tokens.weight", ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "model.embedding_norm", config),
        output_head(config, "model.embed_tokens.weight"),
    ]


def convolution_rules(config: ResolvedConfig, at: str) -> list[Rule]:
    """Returns the rules of a gated convolution, whose tensors begin with `at`."""
    return [
        *fused_linear(INPUTS, f"{at}in_proj", (config.dim,) * 3, bias=False),
        *convolutions(["convolution"], f"{at}conv", (config.dim,)),
        *linear("output", f"{at}out_proj", bias=False),
    ]


def _attention_rules(at: str) -> list[Rule]:
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    return [
        *(rule for ours, theirs in names.items() for rule in linear(ours, f"{at}{theirs}", bias=False)),
        *(Rule(f"{at}{name[0]}_layernorm.weight", (f"{name}_norm/scale",)) for name in ("query", "key")),
    ]


SETTINGS: dict[str, Setting] = {
    "layer_types": lambda view: [
        "conv" if layer.attention.kind == "gated_convolution" else "full_attention" for layer in view.layers
    ],
    # The width is written as it is, however it was computed.
    "block_auto_adjust_ff_dim": lambda view: False,
    # The names of the authors take precedence where a file has both.
    **{alias: SHARED[name] for alias, name in ALIASES.items()},
    "num_attention_heads": of_layers("softmax", "num_heads", "num_attention_heads", LFM2),
    "num_key_value_heads": of_layers("softmax", "num_kv_heads", "num_key_value_heads", LFM2),
    "conv_L_cache": of_layers("gated_convolution", "convolution_width", "conv_L_cache", LFM2),
}
CLASSES = {
    "Lfm2ForCausalLM": Importer(read_config, rules, LFM2, model_type="lfm2", prefix="model", custom_settings=SETTINGS)
}
