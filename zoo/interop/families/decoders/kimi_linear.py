"""Kimi Linear (Kimi Team 2025) of Hugging Face's transformers, from version 5 on: three layers of Kimi
Delta Attention before one of latent attention without positions, and the experts of DeepSeek-V3.

Settings are read in both forms, that of the authors, where `linear_attn_config` counts layers from 1,
and that of transformers. Norms of latent vectors have an epsilon of 1e-6, whatever `rms_norm_eps` is.
Files have a tensor for each matrix of each expert. transformers writes dense layers with the names of
layers with experts, `block_sparse_moe`, which `arranged` undoes.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from zoo.config import ResolvedConfig
from zoo.config.kinds.expert_kinds import PUBLISHED_BIAS_RATE
from zoo.interop.families.decoders.deepseek import LATENT_EPSILON, MIXED, biases_of_the_choice, latent_rules
from zoo.interop.families.decoders.mixtures import (
    EXPERTS,
    NUMBERED,
    PROJECTIONS,
    check_choice,
    dense_layers,
    dense_width,
    routed,
    shared,
    where_mixed,
)
from zoo.interop.families.llama import NORMS, common, gated
from zoo.interop.settings.equivalents import ConfigView, Setting, of_layers
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import by_layer_type, layer_kind_fields, rename_settings
from zoo.interop.weights.mapping import Rule, Rules, Transform, convolutions, layers, linear, norm, output_head, within
from zoo.interop.weights.tensor_names import RenamedTensors

KIMI_LINEAR = {
    "vocab_size": 163840, "hidden_size": 2304, "intermediate_size": 9216, "moe_intermediate_size": 1024,
    "num_hidden_layers": 27, "num_attention_heads": 32, "num_key_value_heads": 32, "n_shared_experts": 1,
    "routed_scaling_factor": 2.446, "kv_lora_rank": 512, "q_lora_rank": None, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "qk_nope_head_dim": 128, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 8,
    "norm_topk_prob": True, "hidden_act": "silu", "initializer_range": 0.02, "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False, "attention_bias": False, "attention_dropout": 0.0, "num_local_experts": 256,
    "mlp_layer_types": None, "layer_types": None, "linear_head_dim": 128, "linear_num_heads": 32,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip
# Names in files, which transformers writes too.
ALIASES = {
    "moe_renormalize": "norm_topk_prob", "num_expert_group": "n_group", "num_experts": "num_local_experts",
    "num_experts_per_token": "num_experts_per_tok", "num_shared_experts": "n_shared_experts",
}  # fmt: skip
STATES = {
    "head_dim": "linear_head_dim",
    "num_heads": "linear_num_heads",
    "short_conv_kernel_size": "linear_conv_kernel_dim",
}
TYPES = {"linear_attention": "state", "full_attention": "full"}
LAYER = "model.layers.{layer}"
# Fields of a dense feed-forward layer.
DENSE = ("ffn.kind", "ffn.hidden_dim")
# Matrices of a layer of Kimi Delta Attention, here and there.
MATRICES = {
    "query": "q_proj", "key": "k_proj", "value": "v_proj", "rate_gate": "b_proj", "decay_down": "f_a_proj",
    "decay_up": "f_b_proj", "gate_down": "g_a_proj", "gate_up": "g_b_proj", "output": "o_proj",
}  # fmt: skip
BY_HEAD = Transform(lambda x: (x.reshape(-1),), lambda parts: parts[0].reshape(1, 1, -1, 1))


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for KimiLinearForCausalLM."""
    settings = SettingsReader(_unpacked(hf), KIMI_LINEAR, "kimi_linear")
    settings.expect("silu", hidden_act="the class applies it to the convolutions of Kimi Delta Attention too")
    fields = common(settings) | {"model.position.kind": "none"}
    bias = fields["model.attention.bias"]
    mixers = {"state": _kimi_delta(settings), "full": _latent(settings)}
    types = by_layer_type(settings, _layer_types(settings), TYPES)
    dense = _dense(settings)
    experts = _experts(settings, not all(dense))
    sublayers = {"sparse": {}, "dense": {name: fields[f"model.{name}"] for name in DENSE}}
    # The kinds of layers say what these are.
    for name in (*(f"attention.{name}" for name in ("num_heads", "num_kv_heads", "head_dim", "bias")), *DENSE):
        fields.pop(f"model.{name}", None)
    mixers["full"]["attention.bias"] = bias
    # Dense layers among others have these fields too, as configs written for zoo have them.
    if not all(dense):
        fields |= {f"model.{path}": value for path, value in experts.items()}
    described = []
    for mixer, alone in zip(types, dense, strict=False):
        ffn = "dense" if alone else "sparse"
        described.append((f"{mixer}_{ffn}", mixers[mixer] | sublayers[ffn]))
    settings.finish()
    return fields | layer_kind_fields(described)


def _unpacked(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings under the names of the class, those of `linear_attn_config` among them."""
    settings = rename_settings(hf, ALIASES)
    inner = settings.get("linear_attn_config")
    if isinstance(inner, Mapping):
        del settings["linear_attn_config"]
        settings |= {theirs: inner[ours] for ours, theirs in STATES.items() if ours in inner}
        settings |= {f"linear_attn_config.{name}": value for name, value in inner.items() if name not in STATES}
    return settings


def _layer_types(settings: SettingsReader) -> list[str]:
    """Returns the types of layers if `layer_types` is None: those of `linear_attn_config`, else one of
    four is of latent attention.
    """
    depth, at = settings["num_hidden_layers"], "linear_attn_config."
    full, state = (settings.get(f"{at}{name}") for name in ("full_attn_layers", "kda_layers"))
    if full is None or state is None:
        return ["full_attention" if layer and layer % 4 == 0 else "linear_attention" for layer in range(depth)]
    if settings.get("layer_types") is None and sorted([*full, *state]) != list(range(1, depth + 1)):
        settings.reject(
            f"{at}full_attn_layers", f"expected, with kda_layers, each of the {depth} layers once, counted from 1"
        )
    return ["full_attention" if layer + 1 in full else "linear_attention" for layer in range(depth)]


def _dense(settings: SettingsReader) -> list[bool]:
    """Returns for each layer whether it is dense."""
    depth, first = settings["num_hidden_layers"], settings.get("first_k_dense_replace", 1)
    types = settings["mlp_layer_types"]
    if types is None:
        return [layer < first for layer in range(depth)]
    if len(types) != depth or set(types) - {"dense", "sparse"}:
        settings.reject("mlp_layer_types", f"expected dense or sparse for each of the {depth} layers")
        return [True] * depth
    return [name == "dense" for name in types]


def _kimi_delta(settings: SettingsReader) -> dict[str, Any]:
    """Returns the fields of a layer of Kimi Delta Attention."""
    width = settings["linear_head_dim"]
    return {
        "attention.kind": "kimi_delta",
        "attention.num_heads": settings["linear_num_heads"],
        "attention.head_dim": width,
        "attention.decay_rank": width,
        "attention.gate_bias": False,
        "attention.convolution_width": settings["linear_conv_kernel_dim"],
    }


def _latent(settings: SettingsReader) -> dict[str, Any]:
    """Returns the fields of a layer of latent attention."""
    heads, width = settings["num_attention_heads"], settings["qk_nope_head_dim"]
    settings.expect(None, heads, num_key_value_heads="expected num_attention_heads: a latent vector is of all heads")
    settings.expect(width, v_head_dim="expected qk_nope_head_dim: values are as wide as the keys of a latent vector")
    if settings["attention_bias"] and settings["q_lora_rank"] is None:
        settings.reject("attention_bias", "without q_lora_rank the class has no bias in its queries")
    return {
        "attention.kind": "latent",
        "attention.num_heads": heads,
        "attention.head_dim": width,
        "attention.rotary_dim": settings["qk_rope_head_dim"],
        "attention.latent_dim": settings["kv_lora_rank"],
        "attention.query_latent_dim": settings["q_lora_rank"] or 0,
        "attention.norm_epsilon": LATENT_EPSILON,
    }


def _experts(settings: SettingsReader, mixed: bool) -> dict[str, Any]:
    """Returns the fields of a layer with experts, which are checked if any layer is `mixed`."""
    if mixed:
        check_choice(settings, "num_local_experts", settings["norm_topk_prob"])
        for name in ("n_group", "topk_group", "n_shared_experts"):
            if not settings[name]:
                settings.reject(name, "expected at least one")
    width = settings["moe_intermediate_size"]
    fields = {
        "kind": "swiglu",
        "number": settings["num_local_experts"],
        "per_token": settings["num_experts_per_tok"],
        "renormalise": settings["norm_topk_prob"],
        "scale": settings["routed_scaling_factor"],
        "shared_dim": width * (settings["n_shared_experts"] or 0),
        "scores": "sigmoid",
        "bias_rate": PUBLISHED_BIAS_RATE,
        "groups": settings["n_group"],
        "chosen_groups": settings["topk_group"],
    }
    start = EXPERTS.removeprefix("model.")
    return {"ffn.kind": "moe", "ffn.hidden_dim": width} | {f"{start}{name}": value for name, value in fields.items()}


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of KimiLinearForCausalLM."""

    def layer(config: ResolvedConfig) -> Rules:
        state, sparse = config.attention.kind == "kimi_delta", config.ffn.kind == "moe"
        moe = f"{LAYER}.block_sparse_moe"
        return [
            *(rule for ours, theirs in NORMS["pre"].items() for rule in norm(ours, f"{LAYER}.{theirs}", config)),
            *(within("attention", _state_rules(config)) if state else latent_rules(config)),
            *([*routed(config, moe, NUMBERED), *shared(config, f"{moe}.shared_experts")] if sparse else gated(config)),
        ]

    return [
        Rule("model.embed_tokens.weight", ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "model.norm", config),
        output_head(config, "model.embed_tokens.weight"),
    ]


def _state_rules(config: ResolvedConfig) -> list[Rule]:
    at, width = f"{LAYER}.self_attn.", config.attention.num_heads * config.attention.head_dim
    return [
        *(rule for ours, theirs in MATRICES.items() for rule in linear(ours, f"{at}{theirs}", bias=False)),
        *(
            rule
            for name in ("query", "key", "value")
            for rule in convolutions([f"{name}_convolution"], f"{at}{name[0]}_conv1d", (width,))
        ),
        Rule(f"{at}A_log", ("step/log_rate",), BY_HEAD),
        Rule(f"{at}dt_bias", ("step/bias",)),
        Rule(f"{at}o_norm.weight", ("scale",)),
    ]


def arranged(view: ConfigView, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the tensors of a file under the names of the rules."""
    ats = [LAYER.format(layer=number) for number in dense_layers(view)]
    return RenamedTensors(
        tensors,
        {
            f"{at}.block_sparse_moe.{theirs}.weight": f"{at}.mlp.{theirs}.weight"
            for at in ats
            for theirs in PROJECTIONS.values()
        },
    )


def _mlp_types(view: ConfigView) -> list[str]:
    alone = dense_layers(view)
    return ["dense" if layer in alone else "sparse" for layer in range(len(view.layers))]


SETTINGS: dict[str, Setting] = {
    "layer_types": lambda view: [
        "linear_attention" if layer.attention.kind == "kimi_delta" else "full_attention" for layer in view.layers
    ],
    "mlp_layer_types": _mlp_types,
    "hidden_act": lambda view: "silu",
    "intermediate_size": dense_width,
    **{
        theirs: of_layers(kind, ours, theirs, KIMI_LINEAR)
        for kind, ours, theirs in (
            ("latent", "num_heads", "num_attention_heads"),
            ("latent", "num_heads", "num_key_value_heads"),
            ("latent", "head_dim", "qk_nope_head_dim"),
            ("latent", "head_dim", "v_head_dim"),
            ("latent", "rotary_dim", "qk_rope_head_dim"),
            ("latent", "latent_dim", "kv_lora_rank"),
            ("latent", "bias", "attention_bias"),
            ("kimi_delta", "num_heads", "linear_num_heads"),
            ("kimi_delta", "head_dim", "linear_head_dim"),
            ("kimi_delta", "convolution_width", "linear_conv_kernel_dim"),
        )
    },
    "q_lora_rank": lambda view: of_layers("latent", "query_latent_dim", "q_lora_rank", KIMI_LINEAR)(view) or None,
}
OF_EXPERTS = {name: setting for name, setting in MIXED.items() if name != "n_routed_experts"} | {
    "num_local_experts": MIXED["n_routed_experts"]
}
WRITTEN: dict[str, Setting] = SETTINGS | where_mixed(OF_EXPERTS, KIMI_LINEAR)
CLASSES = {
    "KimiLinearForCausalLM": Importer(
        read_config,
        rules,
        KIMI_LINEAR,
        statistics=partial(biases_of_the_choice, at="block_sparse_moe"),
        model_type="kimi_linear",
        prefix="model",
        # The names of files take precedence where there are both.
        custom_settings=WRITTEN | {alias: WRITTEN[name] for alias, name in ALIASES.items()},
        arranged=arranged,
    )
}
