"""Mixtures of experts of Hugging Face's transformers, with LLaMA's attention.

MixtralForCausalLM    (Jiang et al. 2024) weights of a token's experts add up to 1
OlmoeForCausalLM      (Muennighoff et al. 2024) query and key norms over all heads; weights as they are
Qwen2MoeForCausalLM   (Qwen Team 2024) biases of queries, keys and values; a shared expert with a
                      gate; some layers may be dense
Qwen3MoeForCausalLM   (Yang et al. 2025) query and key norms per head; some layers may be dense
GraniteMoeForCausalLM (Granite Team 2024) the multipliers of Granite

Files have a tensor for each matrix of each expert; those of Granite have one for a matrix of all
experts. The balancing losses of these classes average over all layers together, where zoo's are of
each layer, so their weights are not imported.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zoo.config import ResolvedConfig
from zoo.interop.families.decoders.granite import GRANITE, MULTIPLIERS, multipliers
from zoo.interop.families.llama import COMMON, MISTRAL, biases_of_inputs, common, gated, rope, rules
from zoo.interop.settings.equivalents import ConfigView, Setting, hidden_dim
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import layer_kind_fields, rename_settings, unpack_rope_parameters
from zoo.interop.weights.mapping import IDENTITY, Rule, Rules, Transform, fused, linear

MIXTRAL = MISTRAL | {
    "rms_norm_eps": 1e-5, "rope_theta": 1e6, "sliding_window": None, "num_local_experts": 8, "num_experts_per_tok": 2,
    "router_jitter_noise": 0.0,
}  # fmt: skip
OLMOE = {name: value for name, value in COMMON.items() if name != "head_dim"} | {
    "vocab_size": 50304, "hidden_size": 2048, "intermediate_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 16, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "clip_qkv": None,
    "num_experts_per_tok": 8, "num_experts": 64, "norm_topk_prob": False,
}  # fmt: skip
QWEN3_MOE = COMMON | {
    "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24,
    "num_key_value_heads": 4, "max_position_embeddings": 32768, "use_sliding_window": False, "sliding_window": 4096,
    "decoder_sparse_step": 1, "moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_experts": 128,
    "norm_topk_prob": False, "mlp_only_layers": None,
}  # fmt: skip
QWEN2_MOE = {name: value for name, value in QWEN3_MOE.items() if name not in ("attention_bias", "head_dim")} | {
    "intermediate_size": 5632, "num_attention_heads": 16, "num_key_value_heads": 16, "max_window_layers": 28,
    "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4,
    "num_experts": 60, "qkv_bias": True,
}  # fmt: skip
GRANITE_MOE = {name: value for name, value in GRANITE.items() if name != "mlp_bias"} | {
    "num_local_experts": 8, "num_experts_per_tok": 2,
}  # fmt: skip
# The name that transformers writes since 5.24, and that of published files.
QWEN3_MOE_ALIASES = {"num_local_experts": "num_experts"}
EXPERTS = "model.ffn.experts."
TRANSPOSED_EACH = Transform(lambda x: (np.swapaxes(x, -1, -2),), lambda parts: np.swapaxes(parts[0], -1, -2))
# Names of the matrices of an expert in Mixtral's files, and in others.
NUMBERED = {"gate": "w1", "down": "w2", "up": "w3"}
PROJECTIONS = {name: f"{name}_proj" for name in NUMBERED}


def mixture(fields: Mapping[str, Any], number: int, per_token: int, renormalise: bool) -> dict[str, Any]:
    """Returns fields with feed-forward layers of their kind as experts."""
    return dict(fields) | {
        "model.ffn.kind": "moe",
        f"{EXPERTS}kind": fields["model.ffn.kind"],
        f"{EXPERTS}number": number,
        f"{EXPERTS}per_token": per_token,
        f"{EXPERTS}renormalise": renormalise,
    }


def check_choice(settings: SettingsReader, number: str, renormalise: bool) -> None:
    """Rejects choices among experts that a mixture here does not have.

    Args:
        settings: the config's settings.
        number: name of the setting that is the number of experts.
        renormalise: whether the weights of a token's experts are divided by their sum.
    """
    chosen = "num_experts_per_tok"
    missing = [name for name in (number, chosen) if settings[name] is None]
    for name in missing:
        settings.reject(name, "expected a number")
    if missing:
        return
    if settings[number] < 2:
        settings.reject(number, "expected at least two")
    elif settings[chosen] > settings[number]:
        settings.reject(chosen, f"expected at most {number}={settings[number]}")
    if renormalise and settings[chosen] == 1:
        settings.reject(
            chosen,
            "expected at least two: the weight of a single expert, divided by itself, is always 1, so the router would "
            "have no gradient of the loss",
        )


def with_dense_layers(experts: Mapping[str, Any], fields: Mapping[str, Any], dense: Sequence[bool]) -> dict[str, Any]:
    """Returns the fields of a model some of whose layers have no experts.

    Args:
        experts: the fields of a model all of whose layers have experts.
        fields: those of one all of whose layers are dense.
        dense: for each layer, whether it is dense.
    """
    if all(dense):
        return dict(fields)
    own = {path: fields[f"model.{path}"] for path in ("ffn.kind", "ffn.hidden_dim")}
    kinds = {True: ("dense", own), False: ("sparse", {"ffn.kind": "moe"})}
    return dict(experts) | layer_kind_fields([kinds[one] for one in dense])


def all_mixed(settings: SettingsReader, fields: Mapping[str, Any], number: str, renormalise: bool) -> dict[str, Any]:
    """Returns the fields of a model all of whose layers have experts, from those of dense layers;
    arguments are those of `check_choice`.
    """
    check_choice(settings, number, renormalise)
    return mixture(fields, settings[number], settings["num_experts_per_tok"], renormalise)


def mixtral_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for MixtralForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), MIXTRAL, "mixtral")
    fields = common(settings) | rope(settings) | {"model.attention.window": settings["sliding_window"] or 0}
    fields = all_mixed(settings, fields, "num_local_experts", renormalise=True)
    settings.expect(False, None, attention_bias="this class has no such biases")
    settings.expect(0.0, None, router_jitter_noise="the class multiplies the inputs of the experts too")
    settings.finish()
    return fields


def olmoe_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for OlmoeForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), OLMOE, "olmoe")
    fields = common(settings) | rope(settings)
    fields |= {"model.attention.qk_norm": "full"}
    settings.expect(None, clip_qkv="the class clips normalised queries and keys, where zoo clips them before the norm")
    fields = all_mixed(settings, fields, "num_experts", settings["norm_topk_prob"])
    settings.finish()
    return fields


def qwen2_moe_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Qwen2MoeForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), QWEN2_MOE, "qwen2_moe")
    fields = common(settings) | rope(settings) | biases_of_inputs(settings["qkv_bias"])
    settings.expect(
        False,
        use_sliding_window="with some kernels the class has the window in all layers, with others in the last ones",
    )
    if "sliding_attention" in (settings.get("layer_types") or ()):
        settings.reject("layer_types", "expected full_attention in all layers, as without use_sliding_window")
    for name in ("sliding_window", "max_window_layers"):
        settings.get(name)
    shared = {f"{EXPERTS}shared_dim": settings["shared_expert_intermediate_size"], f"{EXPERTS}shared_gate": True}
    fields = _some_layers_dense(settings, fields, shared)
    settings.finish()
    return fields


def qwen3_moe_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Qwen3MoeForCausalLM."""
    settings = SettingsReader(rename_settings(unpack_rope_parameters(hf), QWEN3_MOE_ALIASES), QWEN3_MOE, "qwen3_moe")
    window = settings["sliding_window"]
    window = window if settings["use_sliding_window"] else None
    fields = common(settings) | rope(settings)
    fields |= {"model.attention.qk_norm": "head", "model.attention.window": window or 0}
    fields = _some_layers_dense(settings, fields, {})
    settings.finish()
    return fields


def _some_layers_dense(
    settings: SettingsReader, fields: Mapping[str, Any], shared: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the fields of a model of Qwen's from those of dense layers and of a shared expert."""
    experts = mixture(fields, settings["num_experts"], settings["num_experts_per_tok"], settings["norm_topk_prob"])
    experts |= {"model.ffn.hidden_dim": settings["moe_intermediate_size"], **shared}
    dense = layers_of_qwen(settings, shared=bool(shared))
    return with_dense_layers(experts, fields, dense)


def layers_of_qwen(settings: SettingsReader, shared: bool) -> list[bool]:
    """Returns for each layer of a class of Qwen's whether it is dense; without experts, all are.

    Experts are checked if any layer has them.

    Args:
        settings: the config's settings.
        shared: whether the class has a shared expert.
    """
    step, alone = settings["decoder_sparse_step"], settings["mlp_only_layers"] or ()
    if step < 1:
        settings.reject("decoder_sparse_step", "expected at least 1: every so many layers have experts")
        step = 1
    if not isinstance(alone, Sequence) or isinstance(alone, str):
        settings.reject("mlp_only_layers", "expected a list of the numbers of layers")
        alone = ()
    none = settings["num_experts"] == 0
    dense = [none or layer in alone or (layer + 1) % step > 0 for layer in range(settings["num_hidden_layers"])]
    if all(dense):
        return dense
    check_choice(settings, "num_experts", settings["norm_topk_prob"])
    if shared and not settings["shared_expert_intermediate_size"]:
        settings.reject("shared_expert_intermediate_size", "the class has a shared expert, of at least one hidden unit")
    return dense


def granite_moe_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for GraniteMoeForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), GRANITE_MOE, "granitemoe")
    fields = common(settings) | rope(settings) | multipliers(settings)
    fields = all_mixed(settings, fields, "num_local_experts", renormalise=True)
    settings.finish()
    return fields


def numbered(config: ResolvedConfig) -> Rules:
    """Returns the rules of a layer's router and experts with the names of Mixtral's files."""
    return routed(config, "model.layers.{layer}.block_sparse_moe", NUMBERED)


def named(config: ResolvedConfig) -> Rules:
    """Returns the same with LLaMA's names and a shared expert, and those of a dense layer."""
    if config.ffn.kind != "moe":
        return gated(config)
    at, one_gate = "model.layers.{layer}.mlp", config.ffn.experts.shared_gate
    return [
        *routed(config, at),
        *shared(config, f"{at}.shared_expert"),
        *(linear("ffn/shared_gate", f"{at}.shared_expert_gate", bias=False) if one_gate else ()),
    ]


def routed(config: ResolvedConfig, at: str, names: Mapping[str, str] = PROJECTIONS) -> Rules:
    """Returns the rules of a layer's router and experts, with tensors of each expert.

    Args:
        config: the `model` part, as the layer sees it.
        at: start of the tensors' names.
        names: of the matrices of an expert, here and there.
    """
    number, biases = config.ffn.experts.number, config.ffn.bias
    each = {"weight": ("kernel", TRANSPOSED_EACH)} | ({"bias": ("bias", IDENTITY)} if biases else {})
    return [
        *linear("ffn/router", f"{at}.gate", bias=False),
        *(
            Rule(f"{at}.experts.{{row}}.{theirs}.{part}", (f"ffn/experts/{ours}/{own}",), transform, rows=number)
            for ours, theirs in names.items()
            for part, (own, transform) in each.items()
        ),
    ]


def shared(config: ResolvedConfig, at: str) -> Rules:
    """Returns the rules of a layer's shared expert with LLaMA's names, if there is one."""
    return [
        rule
        for ours, theirs in PROJECTIONS.items()
        if config.ffn.experts.shared_dim
        for rule in linear(f"ffn/shared/{ours}", f"{at}.{theirs}", config.ffn.bias)
    ]


def stacked(config: ResolvedConfig) -> Rules:
    """Returns the rules of a layer's router and experts with the names of Granite's files, where each
    tensor is of all experts, and the rows of up follow those of gate.
    """
    at, width = "model.layers.{layer}.block_sparse_moe", hidden_dim(config)
    both = fused([width, width], axis=-2).then(TRANSPOSED_EACH)
    return [
        *linear("ffn/router", f"{at}.router.layer", bias=False),
        Rule(f"{at}.input_linear.weight", ("ffn/experts/gate/kernel", "ffn/experts/up/kernel"), both),
        Rule(f"{at}.output_linear.weight", ("ffn/experts/down/kernel",), TRANSPOSED_EACH),
    ]


def of_a_mixture(view: ConfigView) -> ResolvedConfig:
    """Returns the `model` part as the first layer with experts sees it, or as the whole model does."""
    return next((layer for layer in view.layers if layer.ffn.kind == "moe"), view.model)


def experts_setting(name: str) -> Setting:
    """Returns the setting that is a field of experts."""
    return lambda view: of_a_mixture(view).ffn.experts[name]


def where_mixed(settings: Mapping[str, Setting], defaults: Mapping[str, Any]) -> dict[str, Setting]:
    """Returns settings of layers with experts. Without such layers they change nothing, and are what
    was imported, or else the class's defaults.
    """

    def kept(name: str, read: Setting) -> Setting:
        return lambda view: (
            view.given.get(name, defaults[name]) if len(dense_layers(view)) == len(view.layers) else read(view)
        )

    return {name: kept(name, read) for name, read in settings.items()}


def dense_layers(view: ConfigView) -> list[int]:
    """Returns the numbers of the layers without experts."""
    return [number for number, layer in enumerate(view.layers) if layer.ffn.kind != "moe"]


def dense_width(view: ConfigView) -> int:
    """Returns the width of the layers without experts; if there are none, what was imported."""
    dense = dense_layers(view)
    return hidden_dim(view.layers[dense[0]]) if dense else view.given.get("intermediate_size", hidden_dim(view.model))


LOCAL_SETTINGS: dict[str, Setting] = {
    "num_local_experts": experts_setting("number"),
    "num_experts_per_tok": experts_setting("per_token"),
}
MIXTRAL_SETTINGS = LOCAL_SETTINGS | {"router_jitter_noise": lambda view: 0.0}
OLMOE_SETTINGS: dict[str, Setting] = {
    "num_experts": experts_setting("number"),
    "num_experts_per_tok": experts_setting("per_token"),
    "norm_topk_prob": experts_setting("renormalise"),
    "clip_qkv": lambda view: None,
}


def qwen_settings(defaults: Mapping[str, Any]) -> dict[str, Setting]:
    """Returns the settings of a class of Qwen's with these default values."""
    mixed = {
        "num_experts": experts_setting("number"),
        "num_experts_per_tok": experts_setting("per_token"),
        "norm_topk_prob": experts_setting("renormalise"),
        "moe_intermediate_size": lambda view: hidden_dim(of_a_mixture(view)),
        "shared_expert_intermediate_size": experts_setting("shared_dim"),
    }
    return where_mixed({name: read for name, read in mixed.items() if name in defaults}, defaults) | {
        "intermediate_size": dense_width,
        "decoder_sparse_step": lambda view: 1,
        "mlp_only_layers": dense_layers,
    }


def mixtral_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of MixtralForCausalLM."""
    return rules(config, feed_forward=numbered)


def named_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of OlmoeForCausalLM, Qwen2MoeForCausalLM and Qwen3MoeForCausalLM."""
    return rules(config, feed_forward=named)


def granite_moe_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of GraniteMoeForCausalLM."""
    return rules(config, feed_forward=stacked)


CLASSES = {
    "MixtralForCausalLM": Importer(
        mixtral_config, mixtral_rules, MIXTRAL, model_type="mixtral", prefix="model", custom_settings=MIXTRAL_SETTINGS
    ),
    "OlmoeForCausalLM": Importer(
        olmoe_config, named_rules, OLMOE, model_type="olmoe", prefix="model", custom_settings=OLMOE_SETTINGS
    ),
    "Qwen2MoeForCausalLM": Importer(
        qwen2_moe_config,
        named_rules,
        QWEN2_MOE,
        model_type="qwen2_moe",
        prefix="model",
        custom_settings=qwen_settings(QWEN2_MOE),
    ),
    "Qwen3MoeForCausalLM": Importer(
        qwen3_moe_config,
        named_rules,
        QWEN3_MOE,
        model_type="qwen3_moe",
        prefix="model",
        custom_settings=qwen_settings(QWEN3_MOE),
    ),
    "GraniteMoeForCausalLM": Importer(
        granite_moe_config,
        granite_moe_rules,
        GRANITE_MOE,
        model_type="granitemoe",
        prefix="model",
        custom_settings=LOCAL_SETTINGS | MULTIPLIERS,
    ),
}
