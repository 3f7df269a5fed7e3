"""Gemma (Gemma Team 2024, 2025) of Hugging Face's transformers, with LLaMA's tensor names.

GemmaForCausalLM     LLaMA with norm scales stored minus one, embedding times sqrt(D), GeGLU
Gemma2ForCausalLM    norms before and after the sublayers, softcaps, every other layer local
Gemma3ForCausalLM    Gemma 2 without a cap on scores, five local layers per global one, with
                     another theta; query and key norms
"""

from collections.abc import Mapping
from typing import Any

from zoo.interop.families.llama import COMMON, common, rope, rules
from zoo.interop.settings.equivalents import SETTINGS
from zoo.interop.settings.importer import GATED_ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import (
    layer_kind_fields,
    rope_fields,
    unpack_both_ropes,
    unpack_rope_parameters,
    window_layers,
)

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


def gemma_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for GemmaForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), GEMMA, "gemma")
    # `hidden_activation` takes the place of `hidden_act`, which the first files have wrong; versions
    # of the library disagree about files without it.
    if settings["hidden_activation"] is None:
        settings.expect(
            *(name for name in GATED_ACTIVATIONS if name != "gelu"),
            hidden_act="gelu stands for its tanh approximation in the first files; say in config.json by "
            "hidden_activation whether it is gelu or gelu_pytorch_tanh",
        )
    activation = "hidden_act" if settings["hidden_activation"] is None else "hidden_activation"
    fields = common(settings, activation) | rope(settings) | _gemma(settings)
    settings.get("hidden_act")
    settings.finish()
    return fields


def gemma_deviations(hf: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns a line where `hidden_act` is not what is computed, though a version of the class may
    compute it.
    """
    used, other = hf.get("hidden_activation"), hf.get("hidden_act")
    if used is None or other in (None, used):
        return ()
    return (
        f"hidden_act={other} is not read: hidden_activation={used} takes its place, as the authors' code has it; "
        "versions of transformers that read hidden_act compute something else",
    )


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
    fields = common(settings, "hidden_activation") | rope(settings) | _gemma2(settings)
    fields |= layer_kind_fields(window_layers(settings, types, settings["sliding_window"]))
    settings.finish()
    return fields


def gemma3_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Gemma3ForCausalLM, text only."""
    settings = SettingsReader(unpack_both_ropes(hf, "rope_local_base_freq"), GEMMA3, "gemma3_text")
    # The class writes this setting under another name than it reads.
    period = settings["sliding_window_pattern"]
    period = settings.get("_sliding_window_pattern", period)
    types = [
        "sliding_attention" if (layer + 1) % period else "full_attention"
        for layer in range(settings["num_hidden_layers"])
    ]
    turned = {"global": rope(settings), "local": rope_fields(settings, settings["rope_local_base_freq"], None, 0)}
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
        common(settings, "hidden_activation")
        | _gemma2(settings)
        | {"model.position.kind": "rope", "model.attention.qk_norm": "head"}
    )
    settings.finish()
    return fields | layer_kind_fields(described)


CLASSES = {
    "GemmaForCausalLM": Importer(
        gemma_config,
        rules,
        GEMMA,
        model_type="gemma",
        prefix="model",
        custom_settings={"hidden_act": SETTINGS["hidden_activation"]},
        deviations=gemma_deviations,
    ),
    "Gemma2ForCausalLM": Importer(gemma2_config, rules, GEMMA2, model_type="gemma2", prefix="model"),
    "Gemma3ForCausalLM": Importer(gemma3_config, rules, GEMMA3, model_type="gemma3_text", prefix="model"),
}
