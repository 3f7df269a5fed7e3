"""OLMo-hybrid (Merrill et al. 2026) of Hugging Face's transformers, from version 5 on: in groups
of four layers, three of Gated DeltaNet before one of attention.

A layer of Gated DeltaNet normalises the inputs of its sublayers, a layer of attention their outputs,
as in OLMo 2, and its queries and keys over all heads. The norm within Gated DeltaNet has an epsilon
of 1e-5, whatever `rms_norm_eps` is. With a `rope_theta` of None nothing is rotated.

transformers 5 renames norms and joins convolutions when it reads a file. When it writes one, the norm
of the output of attention becomes `feedforward_layer_norm` too, and the channels of the three
convolutions, which differ in number, are cut into three equal parts; `arranged` undoes both.
"""

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

import numpy as np

from zoo.config import ResolvedConfig
from zoo.interop.families.llama import COMMON, NORMS, common, gated, rope
from zoo.interop.settings.equivalents import ConfigView, Setting, of_layers, rope_scaling
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import by_layer_type, layer_kind_fields, unpack_rope_parameters
from zoo.interop.weights.mapping import Rule, Rules, convolutions, layers, linear, norm, output_head, within
from zoo.interop.weights.tensor_names import RenamedTensors

OLMO_HYBRID = {name: value for name, value in COMMON.items() if name != "head_dim"} | {
    "vocab_size": 100352, "hidden_size": 3840, "num_attention_heads": 30, "max_position_embeddings": 65536,
    "layer_types": None, "linear_num_key_heads": None, "linear_num_value_heads": None, "linear_key_head_dim": None,
    "linear_value_head_dim": None, "linear_conv_kernel_dim": 4, "linear_allow_neg_eigval": True,
}  # fmt: skip
PLACEMENTS = {"gated_delta": "pre", "softmax": "reordered"}
# The class has it in the norm of what heads have read.
STATE_EPSILON = 1e-5
LAYER = "model.layers.{layer}"
NORM_NAMES = NORMS | {"pre": {"attention_norm": "attention_layer_norm", "ffn_norm": "feedforward_layer_norm"}}
# Matrices of a layer of Gated DeltaNet, here and there.
MATRICES = {
    "query": "q_proj", "key": "k_proj", "value": "v_proj", "decay_gate": "a_proj", "rate_gate": "b_proj",
    "gate": "g_proj", "output": "o_proj",
}  # fmt: skip
CONVOLVED = ("query", "key", "value")


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for OlmoHybridForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), OLMO_HYBRID, "olmo_hybrid")
    settings.expect("silu", hidden_act="the class applies it to the convolutions of Gated DeltaNet too")
    kinds = {"state": _gated_delta(settings), "full": _attention(settings, _rotates(hf))}
    types = _layer_types(settings)
    for name, theirs in (("state", "linear_attention"), ("full", "full_attention")):
        if name not in types:
            settings.reject("layer_types", f"the class expects at least one layer of {theirs}")
    fields = common(settings)
    # The kinds of layers say what these are.
    for name in ("num_heads", "num_kv_heads"):
        del fields[f"model.attention.{name}"]
    settings.finish()
    return fields | {"model.position.kind": "none"} | layer_kind_fields([(name, kinds[name]) for name in types])


def _rotates(hf: Mapping[str, Any]) -> bool:
    """Returns whether layers of attention rotate queries and keys: not with a base of None."""
    parameters = hf.get("rope_parameters")
    given = parameters if isinstance(parameters, Mapping) and "rope_theta" in parameters else hf
    return given.get("rope_theta", COMMON["rope_theta"]) is not None


def _layer_types(settings: SettingsReader) -> list[str]:
    """Returns the name of the kind of each layer."""
    depth = settings["num_hidden_layers"]
    default = ["linear_attention" if (layer + 1) % 4 else "full_attention" for layer in range(depth)]
    if depth < 4:
        default[-1:] = ["full_attention"]
    return by_layer_type(settings, default, {"linear_attention": "state", "full_attention": "full"})


def _gated_delta(settings: SettingsReader) -> dict[str, Any]:
    """Returns the fields of a layer of Gated DeltaNet."""
    heads = settings["num_attention_heads"]
    key_heads = settings["linear_num_key_heads"] or heads
    key_dim = settings["linear_key_head_dim"] or int(0.75 * settings["hidden_size"] / key_heads)
    return {
        "attention.kind": "gated_delta",
        "attention.num_heads": settings["linear_num_value_heads"] or heads,
        "attention.key_heads": key_heads,
        "attention.head_dim": key_dim,
        "attention.value_dim": settings["linear_value_head_dim"] or 2 * key_dim,
        "attention.convolution_width": settings["linear_conv_kernel_dim"],
        "attention.negative_eigenvalues": settings["linear_allow_neg_eigval"],
        "attention.norm_epsilon": STATE_EPSILON,
    }


def _attention(settings: SettingsReader, rotates: bool) -> dict[str, Any]:
    """Returns the fields of a layer of attention."""
    heads = settings["num_attention_heads"]
    turned = rope(settings) if rotates else {}
    if not rotates:
        for name in ("rope_theta", "max_position_embeddings"):
            settings.get(name)
        settings.expect(None, rope_scaling="without a rope_theta nothing is rotated")
    return {path.removeprefix("model."): value for path, value in turned.items()} | {
        "attention.kind": "softmax",
        "attention.num_heads": heads,
        "attention.num_kv_heads": settings["num_key_value_heads"] or heads,
        "attention.qk_norm": "full",
        "norm.placement": PLACEMENTS["softmax"],
    }


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of OlmoHybridForCausalLM."""

    def layer(config: ResolvedConfig) -> Rules:
        mixer = _state_rules(config) if config.attention.kind == "gated_delta" else _attention_rules(config)
        norms = NORM_NAMES[config.norm.placement].items()
        return [
            *(rule for ours, theirs in norms for rule in norm(ours, f"{LAYER}.{theirs}", config)),
            *within("attention", mixer),
            *gated(config),
        ]

    return [
        Rule("model.embed_tokens.weight", ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "model.norm", config),
        output_head(config, "model.embed_tokens.weight"),
    ]


def _state_rules(config: ResolvedConfig) -> list[Rule]:
    at = f"{LAYER}.linear_attn."
    return [
        *(rule for ours, theirs in MATRICES.items() for rule in linear(ours, f"{at}{theirs}", bias=False)),
        *(
            rule
            for name, size in zip(CONVOLVED, _channels(config), strict=True)
            for rule in convolutions([f"{name}_convolution"], f"{at}{name[0]}_conv1d", (size,))
        ),
        Rule(f"{at}A_log", ("step/log_rate",)),
        Rule(f"{at}dt_bias", ("step/bias",)),
        Rule(f"{at}o_norm.weight", ("scale",)),
    ]


def _attention_rules(config: ResolvedConfig) -> list[Rule]:
    at, bias = f"{LAYER}.self_attn.", config.attention.bias
    return [
        *(rule for name in (*CONVOLVED, "output") for rule in linear(name, f"{at}{name[0]}_proj", bias)),
        *(Rule(f"{at}{name[0]}_norm.weight", (f"{name}_norm/scale",)) for name in ("query", "key")),
    ]


def _channels(config: ResolvedConfig) -> tuple[int, int, int]:
    """Returns the numbers of channels of the convolutions of queries, keys and values."""
    attention = config.attention
    keys = attention.key_heads * attention.head_dim
    return keys, keys, attention.num_heads * attention.value_dim


def arranged(view: ConfigView, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the tensors of a file under the names and in the shapes of the rules."""
    endings, convolved = {}, {}
    for number, layer in enumerate(view.layers):
        at = LAYER.format(layer=number)
        if layer.attention.kind == "softmax":
            endings[f"{at}.feedforward_layer_norm.weight"] = f"{at}.post_attention_layernorm.weight"
            continue
        names, sizes = [f"{at}.linear_attn.{name[0]}_conv1d.weight" for name in CONVOLVED], _channels(layer)
        if all(name in tensors for name in names) and tensors[names[0]].shape[0] != sizes[0]:
            whole = np.concatenate([np.asarray(tensors[name]) for name in names])
            if len(whole) == sum(sizes):
                convolved |= dict(zip(names, np.split(whole, np.cumsum(sizes)[:-1]), strict=True))
    return ChainMap(convolved, RenamedTensors(tensors, endings))


def _positions(view: ConfigView) -> float | None:
    """Returns the base of RoPE, None where no layer of attention rotates."""
    turned = [layer for layer in view.layers if layer.position.kind == "rope"]
    return turned[0].position.theta if turned else None


SETTINGS: dict[str, Setting] = {
    "layer_types": lambda view: [
        "linear_attention" if layer.attention.kind == "gated_delta" else "full_attention" for layer in view.layers
    ],
    "hidden_act": lambda view: "silu",
    "rope_theta": _positions,
    "rope_scaling": rope_scaling,
    **{
        theirs: of_layers(kind, ours, theirs, OLMO_HYBRID)
        for kind, ours, theirs in (
            ("softmax", "num_heads", "num_attention_heads"),
            ("softmax", "num_kv_heads", "num_key_value_heads"),
            ("gated_delta", "num_heads", "linear_num_value_heads"),
            ("gated_delta", "key_heads", "linear_num_key_heads"),
            ("gated_delta", "head_dim", "linear_key_head_dim"),
            ("gated_delta", "value_dim", "linear_value_head_dim"),
            ("gated_delta", "convolution_width", "linear_conv_kernel_dim"),
            ("gated_delta", "negative_eigenvalues", "linear_allow_neg_eigval"),
        )
    },
}
CLASSES = {
    "OlmoHybridForCausalLM": Importer(
        read_config,
        rules,
        OLMO_HYBRID,
        model_type="olmo_hybrid",
        prefix="model",
        custom_settings=SETTINGS,
        arranged=arranged,
    )
}
