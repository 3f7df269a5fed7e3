"""DeepSeek-V2 and V3 of Hugging Face's transformers: latent attention, dense layers and then layers of
many small experts with a shared one.

DeepseekV2ForCausalLM (DeepSeek-AI 2024, V2) softmax scores; a group counts by its best expert
DeepseekV3ForCausalLM (DeepSeek-AI 2024, V3) sigmoid scores; biases of the choice, no parameters

Where the classes of transformers 4 differ from the authors' code and papers, the models are read as
these have them. Experts of losing groups have a score of minus infinity, where the class of V3 has 0;
the two agree where scores with their biases are above 0. With `mscale_all_dim` V2 has V3's factor on
the scores, which the class of V2 leaves out. The module that predicts later tokens is not imported.
"""

import math
from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.config.kinds.expert_kinds import PUBLISHED_BIAS_RATE
from zoo.interop.families.decoders.mixtures import (
    EXPERTS,
    check_choice,
    dense_layers,
    dense_width,
    experts_setting,
    mixture,
    of_a_mixture,
    routed,
    shared,
    where_mixed,
    with_dense_layers,
)
from zoo.interop.families.llama import COMMON, NORMS, common, gated, rope
from zoo.interop.settings.equivalents import ConfigView, Setting, hidden_dim, rope_scaling
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import unpack_rope_parameters, yarn_sharpening
from zoo.interop.weights.mapping import (
    TRANSPOSED,
    IgnoredTensors,
    Rule,
    Rules,
    ZeroParameters,
    fused,
    fused_linear,
    layers,
    linear,
    norm,
    output_head,
)

BOTH = {name: value for name, value in COMMON.items() if name != "head_dim"} | {
    "first_k_dense_replace": 0, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64, "n_shared_experts": 2, "n_group": None,
    "topk_group": None, "norm_topk_prob": False, "routed_scaling_factor": 1.0, "moe_intermediate_size": 1407,
    "num_experts_per_tok": 6,
}  # fmt: skip
V2 = BOTH | {"mlp_bias": False, "topk_method": "greedy"}
V3 = BOTH | {
    "vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
    "num_attention_heads": 128, "num_key_value_heads": 128, "max_position_embeddings": 4096,
    "first_k_dense_replace": 3, "n_routed_experts": 256, "n_shared_experts": 1, "n_group": 8, "topk_group": 4,
    "norm_topk_prob": True, "routed_scaling_factor": 2.5, "moe_intermediate_size": 2048, "num_experts_per_tok": 8,
    "rope_interleave": True,
}  # fmt: skip
# The classes have it in the norms of latent vectors, whatever the other norms have.
LATENT_EPSILON = 1e-6


def _fields(settings: SettingsReader, renormalise: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the fields of a model of dense layers, and those of one of layers with experts, without
    how they are scored and grouped.

    Args:
        settings: the config's settings.
        renormalise: whether the weights of a token's experts are divided by their sum.
    """
    heads, nope, turned = settings["num_attention_heads"], settings["qk_nope_head_dim"], settings["qk_rope_head_dim"]
    settings.expect(None, heads, num_key_value_heads="expected num_attention_heads: a latent vector is of all heads")
    settings.expect(nope, v_head_dim="expected qk_nope_head_dim: values are as wide as the keys of a latent vector")
    settings.expect(
        LATENT_EPSILON, rms_norm_eps=f"expected {LATENT_EPSILON:g}, which the class has in the norms of latent vectors"
    )
    if settings["attention_bias"] and settings["q_lora_rank"] is None:
        settings.reject("attention_bias", "without q_lora_rank the class has no bias in its queries")
    if _mixed(settings) and not settings["n_shared_experts"]:
        settings.reject("n_shared_experts", "expected at least one")
    for name in ("head_dim", "qk_head_dim"):  # Copies of the widths that transformers writes.
        settings.get(name)
    scaling = settings["rope_scaling"]
    fields = common(settings) | rope(settings) | {
        "model.attention.kind": "latent", "model.attention.head_dim": nope, "model.attention.rotary_dim": turned,
        "model.attention.latent_dim": settings["kv_lora_rank"],
        "model.attention.query_latent_dim": settings["q_lora_rank"] or 0, "model.position.layout": "interleaved",
    }  # fmt: skip
    if isinstance(scaling, Mapping) and scaling.get("mscale_all_dim"):
        m = yarn_sharpening(scaling.get("factor") or 1.0, scaling["mscale_all_dim"])
        fields["model.attention.scale"] = m * m * (nope + turned) ** -0.5
    if _mixed(settings):
        check_choice(settings, "n_routed_experts", renormalise)
    experts = mixture(fields, settings["n_routed_experts"], settings["num_experts_per_tok"], renormalise)
    return fields, experts | {
        "model.ffn.hidden_dim": settings["moe_intermediate_size"],
        f"{EXPERTS}scale": settings["routed_scaling_factor"],
        f"{EXPERTS}shared_dim": settings["moe_intermediate_size"] * (settings["n_shared_experts"] or 0),
    }


def _mixed(settings: SettingsReader) -> bool:
    """Returns whether any layer has experts."""
    return settings["first_k_dense_replace"] < settings["num_hidden_layers"]


def _groups(settings: SettingsReader, read: bool) -> dict[str, Any]:
    """Returns the fields of groups of experts.

    Args:
        settings: the config's settings.
        read: whether the class reads them, and refuses None.
    """
    given = {name: settings[name] for name in ("n_group", "topk_group")}
    for name, value in given.items():
        if value is None and read and _mixed(settings):
            settings.reject(name, "expected a number of groups")
    return {f"{EXPERTS}groups": given["n_group"], f"{EXPERTS}chosen_groups": given["topk_group"]}


def _whole(settings: SettingsReader, fields: dict[str, Any], experts: dict[str, Any]) -> dict[str, Any]:
    depth, first = settings["num_hidden_layers"], settings["first_k_dense_replace"]
    whole = with_dense_layers(experts, fields, [layer < first for layer in range(depth)])
    settings.finish()
    return whole


def deepseek_v2_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for DeepseekV2ForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), V2, "deepseek_v2")
    fields, experts = _fields(settings, renormalise=False)
    settings.expect(False, norm_topk_prob="the class does not divide the weights by their sum")
    by_group = {"greedy": False, "group_limited_greedy": True}
    limited = settings.choose("topk_method", by_group)
    groups = _groups(settings, read=limited)
    if limited:
        experts |= groups | ({f"{EXPERTS}group_score": "max"} if settings["n_group"] != 1 else {})
    return _whole(settings, fields, experts)


def deepseek_v3_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for DeepseekV3ForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), V3, "deepseek_v3")
    fields, experts = _fields(settings, settings["norm_topk_prob"])
    turned = {"model.position.layout": "interleaved" if settings["rope_interleave"] else "half"}
    experts |= _groups(settings, read=True)
    experts |= {f"{EXPERTS}scores": "sigmoid", f"{EXPERTS}bias_rate": PUBLISHED_BIAS_RATE}
    return _whole(settings, fields | turned, experts | turned)


def _deviations(hf: Mapping[str, Any], scores: bool) -> tuple[str, ...]:
    scaling = hf.get("rope_scaling") or hf.get("rope_parameters") or {}
    later = hf.get("num_nextn_predict_layers")
    return (
        *(
            ("scores have the factor of mscale_all_dim as in the authors' code; the class of transformers 4 has none",)
            if scores and isinstance(scaling, Mapping) and scaling.get("mscale_all_dim")
            else ()
        ),
        *((f"num_nextn_predict_layers={later}: the module that predicts later tokens is not imported",) * bool(later)),
    )


def latent_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of a layer's attention. Keys and values of a head lie side by side."""
    at, attention = "model.layers.{layer}.self_attn", config.attention
    heads, bias = attention.num_heads, attention.bias
    width = heads * attention.head_dim
    queries = linear("attention/query", f"{at}.q_proj", bias)
    if attention.query_latent_dim:
        queries = [
            *linear("attention/query_latent", f"{at}.q_a_proj", bias),
            Rule(f"{at}.q_a_layernorm.weight", ("attention/query_latent_norm/scale",)),
            *linear("attention/query", f"{at}.q_b_proj", bias=False),
        ]
    both, sizes = ("attention/latent", "attention/rotary_key"), (attention.latent_dim, attention.rotary_dim)
    expanded = fused((width, width), groups=heads).then(TRANSPOSED)
    return [
        *queries,
        *fused_linear(both, f"{at}.kv_a_proj_with_mqa", sizes, bias),
        Rule(f"{at}.kv_a_layernorm.weight", ("attention/latent_norm/scale",)),
        Rule(f"{at}.kv_b_proj.weight", ("attention/key/kernel", "attention/value/kernel"), expanded),
        *linear("attention/output", f"{at}.o_proj", bias),
    ]


def _layer(config: ResolvedConfig) -> Rules:
    """Returns the rules of a layer."""
    at = "model.layers.{layer}"
    sparse = config.ffn.kind == "moe"
    return [
        *(rule for ours, theirs in NORMS["pre"].items() for rule in norm(ours, f"{at}.{theirs}", config)),
        *latent_rules(config),
        *([*routed(config, f"{at}.mlp"), *shared(config, f"{at}.mlp.shared_experts")] if sparse else gated(config)),
    ]


def deepseek_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of both classes."""
    return [
        Rule("model.embed_tokens.weight", ("embedding",)),
        *layers(config, _layer),
        *norm("final_norm", "model.norm", config),
        output_head(config, "model.embed_tokens.weight"),
        IgnoredTensors(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"),
        # The module that predicts later tokens is numbered like a layer.
        IgnoredTensors(rf"model\.layers\.{config.num_layers}\..*"),
    ]


def biases_of_the_choice(config: ResolvedConfig, at: str = "mlp") -> Rules:
    """Returns the rules of the biases of V3's experts, and of the counts behind them, which are 0
    after an update; `at` is the name of a layer with experts.
    """

    def layer(config: ResolvedConfig) -> Rules:
        if config.ffn.kind != "moe":
            return []
        name = f"model.layers.{{layer}}.{at}.gate.e_score_correction_bias"
        return [Rule(name, ("ffn/choice_bias",)), ZeroParameters(("ffn/sent",))]

    return layers(config, layer)


def _rope_scaling(view: ConfigView) -> dict[str, Any] | None:
    """Returns the setting, with the weights m of the factors 0.1 m ln(factor) + 1: `mscale_all_dim`
    of the one whose square is on the scores, and `mscale` of that on what is rotated.
    """
    found, attention = rope_scaling(view), view.model.attention
    if not found or found["rope_type"] != "yarn" or found["factor"] <= 1:
        return found
    unit = 0.1 * math.log(found["factor"])
    on_scores = math.sqrt(attention.scale * math.sqrt(attention.head_dim + attention.rotary_dim))
    if not math.isclose(on_scores, 1, rel_tol=1e-12):
        found["mscale_all_dim"] = round((on_scores - 1) / unit, 12)
        turned = found.get("attention_factor")
        if turned and (weight := round((turned * on_scores - 1) / unit, 12)):
            del found["attention_factor"]
            found["mscale"] = weight
    return found


def _shared_number(view: ConfigView) -> int:
    layer = of_a_mixture(view)
    return layer.ffn.experts.shared_dim // hidden_dim(layer)


SETTINGS: dict[str, Setting] = {
    "intermediate_size": dense_width,
    "first_k_dense_replace": lambda view: len(dense_layers(view)),
    "q_lora_rank": lambda view: view.model.attention.query_latent_dim or None,
    "kv_lora_rank": lambda view: view.model.attention.latent_dim,
    "qk_nope_head_dim": lambda view: view.model.attention.head_dim,
    "qk_rope_head_dim": lambda view: view.model.attention.rotary_dim,
    "v_head_dim": lambda view: view.model.attention.head_dim,
    "rope_scaling": _rope_scaling,
}
# Those of layers with experts.
MIXED: dict[str, Setting] = {
    "moe_intermediate_size": lambda view: hidden_dim(of_a_mixture(view)),
    "n_routed_experts": experts_setting("number"),
    "n_shared_experts": _shared_number,
    "num_experts_per_tok": experts_setting("per_token"),
    "norm_topk_prob": experts_setting("renormalise"),
    "routed_scaling_factor": experts_setting("scale"),
    "n_group": experts_setting("groups"),
    "topk_group": experts_setting("chosen_groups"),
}
METHOD: dict[str, Setting] = {
    "topk_method": lambda view: ("group_limited_" if of_a_mixture(view).ffn.experts.groups > 1 else "") + "greedy"
}
CLASSES = {
    "DeepseekV2ForCausalLM": Importer(
        deepseek_v2_config,
        deepseek_rules,
        V2,
        model_type="deepseek_v2",
        prefix="model",
        deviations=lambda hf: _deviations(hf, scores=True),
        custom_settings=SETTINGS | where_mixed(MIXED | METHOD, V2),
    ),
    "DeepseekV3ForCausalLM": Importer(
        deepseek_v3_config,
        deepseek_rules,
        V3,
        statistics=biases_of_the_choice,
        model_type="deepseek_v3",
        prefix="model",
        deviations=lambda hf: _deviations(hf, scores=False),
        custom_settings=SETTINGS
        | where_mixed(MIXED, V3)
        | {"rope_interleave": lambda view: view.model.position.layout == "interleaved"},
    ),
}
