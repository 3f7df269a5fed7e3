"""Qwen3-Next (Qwen Team 2025) of Hugging Face's transformers: in groups of four layers, three of
Gated DeltaNet before one of attention with a gate on its output; experts beside a shared one that has
a gate; scales of norms stored minus one; RoPE on a part of each head.

The norm within Gated DeltaNet stores its scale as it is. Files hold a module that predicts further
tokens (`mtp.`), which the class does not read either.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.decoders import mixtures
from zoo.interop.families.llama import COMMON, NORMS, common, rope
from zoo.interop.settings.equivalents import Setting, of_layers
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import (
    by_layer_type,
    layer_kind_fields,
    rotated_fraction,
    unpack_rope_parameters,
)
from zoo.interop.weights.mapping import (
    TRANSPOSED,
    IgnoredTensors,
    Rule,
    Rules,
    convolutions,
    fused,
    fused_linear,
    layers,
    linear,
    norm,
    output_head,
    within,
)

QWEN3_NEXT = COMMON | {
    "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 48,
    "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "max_position_embeddings": 32768,
    "partial_rotary_factor": 0.25, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "decoder_sparse_step": 1,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts_per_tok": 10,
    "num_experts": 512, "norm_topk_prob": True, "mlp_only_layers": (), "layer_types": None,
}  # fmt: skip
INTERVAL = 4
TYPES = {"linear_attention": "state", "full_attention": "full"}


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Qwen3NextForCausalLM."""
    unpacked = unpack_rope_parameters(hf, fraction="partial_rotary_factor")
    settings = SettingsReader(unpacked, QWEN3_NEXT, "qwen3_next")
    settings.expect(False, attention_bias="the matrix of queries holds the gates too, without biases here")
    settings.expect("silu", hidden_act="the class applies it to the convolutions of Gated DeltaNet too")
    mixers = {"state": _gated_delta(settings), "full": _attention(settings)}
    sublayers = {name: _feed_forward(settings, name) for name in ("sparse", "dense")}
    types, described = _layer_types(settings), []
    for mixer, dense in zip(types, mixtures.layers_of_qwen(settings, shared=True), strict=False):
        ffn = "dense" if dense else "sparse"
        described.append((f"{mixer}_{ffn}", mixers[mixer] | sublayers[ffn]))
    fields = common(settings)
    # The kinds of layers say what these are.
    for name in ("attention.num_heads", "attention.num_kv_heads", "attention.head_dim", "ffn.kind", "ffn.hidden_dim"):
        del fields[f"model.{name}"]
    if "full" not in types:
        del fields["model.attention.bias"]
    fields |= {"model.norm.unit_offset": True, "model.position.kind": "none"}
    settings.finish()
    return fields | layer_kind_fields(described)


def _layer_types(settings: SettingsReader) -> list[str]:
    """Returns the name of the mixer of each layer."""
    interval = settings.get("full_attention_interval", INTERVAL)
    default = [
        "linear_attention" if (layer + 1) % interval else "full_attention"
        for layer in range(settings["num_hidden_layers"])
    ]
    return by_layer_type(settings, default, TYPES)


def _gated_delta(settings: SettingsReader) -> dict[str, Any]:
    """Returns the fields of a layer of Gated DeltaNet."""
    return {
        "attention.kind": "gated_delta",
        "attention.num_heads": settings["linear_num_value_heads"],
        "attention.key_heads": settings["linear_num_key_heads"],
        "attention.head_dim": settings["linear_key_head_dim"],
        "attention.value_dim": settings["linear_value_head_dim"],
        "attention.convolution_width": settings["linear_conv_kernel_dim"],
        "position.kind": "none",
    }


def _attention(settings: SettingsReader) -> dict[str, Any]:
    """Returns the fields of a layer of attention."""
    heads = settings["num_attention_heads"]
    width = settings["head_dim"] or settings["hidden_size"] // heads
    turned = rope(settings) | rotated_fraction(width, settings["partial_rotary_factor"])
    return {path.removeprefix("model."): value for path, value in turned.items()} | {
        "attention.kind": "softmax",
        "attention.num_heads": heads,
        "attention.num_kv_heads": settings["num_key_value_heads"] or heads,
        "attention.head_dim": width,
        "attention.qk_norm": "head",
        "attention.gate": "elementwise",
    }


def _feed_forward(settings: SettingsReader, name: str) -> dict[str, Any]:
    """Returns the fields of a "dense" feed-forward layer, or of a "sparse" one."""
    if name == "dense":
        return {"ffn.kind": "swiglu", "ffn.hidden_dim": settings["intermediate_size"]}
    return {
        "ffn.kind": "moe",
        "ffn.hidden_dim": settings["moe_intermediate_size"],
        "ffn.experts.kind": "swiglu",
        "ffn.experts.number": settings["num_experts"],
        "ffn.experts.per_token": settings["num_experts_per_tok"],
        "ffn.experts.renormalise": settings["norm_topk_prob"],
        "ffn.experts.shared_dim": settings["shared_expert_intermediate_size"],
        "ffn.experts.shared_gate": True,
    }


def gated_delta_rules(config: ResolvedConfig, at: str) -> list[Rule]:
    """Returns the rules of a layer of Gated DeltaNet, whose tensors begin with `at`.

    `in_proj_qkvz` and `in_proj_ba` hold, for each head of keys, its rows and those of its heads of
    values.
    """
    attention = config.attention
    heads, groups, values = attention.num_heads, attention.key_heads, attention.num_heads * attention.value_dim
    sizes = groups * attention.head_dim, groups * attention.head_dim, values
    return [
        *fused_linear(("query", "key", "value", "gate"), f"{at}in_proj_qkvz", (*sizes, values), False, groups),
        *fused_linear(("rate_gate", "decay_gate"), f"{at}in_proj_ba", (heads, heads), False, groups),
        *convolutions([f"{name}_convolution" for name in ("query", "key", "value")], f"{at}conv1d", sizes),
        Rule(f"{at}A_log", ("step/log_rate",)),
        Rule(f"{at}dt_bias", ("step/bias",)),
        Rule(f"{at}norm.weight", ("scale",)),
        *linear("output", f"{at}out_proj", bias=False),
    ]


def gated_attention_rules(config: ResolvedConfig, at: str) -> list[Rule]:
    """Returns the rules of a layer of attention, whose tensors begin with `at`.

    `q_proj` alternates between the rows of a head's query and those of its gate.
    """
    heads, width = config.attention.num_heads, config.attention.num_heads * config.attention.head_dim
    both = "query/kernel", "output_gate/projection/kernel"
    return [
        Rule(f"{at}q_proj.weight", both, fused((width, width), groups=heads).then(TRANSPOSED)),
        *(rule for name in ("key", "value", "output") for rule in linear(name, f"{at}{name[0]}_proj", bias=False)),
        *(Rule(f"{at}{name[0]}_norm.weight", (f"{name}_norm/scale",)) for name in ("query", "key")),
    ]


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of Qwen3NextForCausalLM."""

    def layer(config: ResolvedConfig) -> Rules:
        at = "model.layers.{layer}"
        if config.attention.kind == "gated_delta":
            mixer = gated_delta_rules(config, f"{at}.linear_attn.")
        else:
            mixer = gated_attention_rules(config, f"{at}.self_attn.")
        return [
            *(rule for ours, theirs in NORMS["pre"].items() for rule in norm(ours, f"{at}.{theirs}", config)),
            *within("attention", mixer),
            *mixtures.named(config),
        ]

    return [
        Rule("model.embed_tokens.weight", ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "model.norm", config),
        output_head(config, "model.embed_tokens.weight"),
        IgnoredTensors(r"mtp\..*"),
    ]


SETTINGS: dict[str, Setting] = mixtures.qwen_settings(QWEN3_NEXT) | {
    "layer_types": lambda view: [
        "linear_attention" if layer.attention.kind == "gated_delta" else "full_attention" for layer in view.layers
    ],
    "attention_bias": lambda view: False,
    "hidden_act": lambda view: "silu",
    "partial_rotary_factor": lambda view: view.rotary().fraction,
    **{
        theirs: of_layers(kind, ours, theirs, QWEN3_NEXT)
        for kind, ours, theirs in (
            ("softmax", "num_heads", "num_attention_heads"),
            ("softmax", "num_kv_heads", "num_key_value_heads"),
            ("softmax", "head_dim", "head_dim"),
            ("gated_delta", "num_heads", "linear_num_value_heads"),
            ("gated_delta", "key_heads", "linear_num_key_heads"),
            ("gated_delta", "head_dim", "linear_key_head_dim"),
            ("gated_delta", "value_dim", "linear_value_head_dim"),
            ("gated_delta", "convolution_width", "linear_conv_kernel_dim"),
        )
    },
}
CLASSES = {
    "Qwen3NextForCausalLM": Importer(
        read_config, rules, QWEN3_NEXT, model_type="qwen3_next", prefix="model", custom_settings=SETTINGS
    )
}
