"""GPT-1 (Radford et al. 2018) and GPT-2 (Radford et al. 2019) of Hugging Face's transformers.

Both store dense layers as [in, out], and query, key and value in one matrix, all queries first.
GPT-1 is post-norm, and its "gelu" is the tanh approximation.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.settings.equivalents import activation
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import rename_settings
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Rules, fused_linear, layers, linear, norm, output_head

GPT1 = {
    "vocab_size": 40478, "n_positions": 512, "n_embd": 768, "n_layer": 12, "n_head": 12, "afn": "gelu",
    "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02,
    "tie_word_embeddings": True,
}  # fmt: skip
GPT2 = {
    "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": None,
    "activation_function": "gelu_new", "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
    "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False, "tie_word_embeddings": True,
}  # fmt: skip
# Aliases of settings.
NAMES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}


def _common(settings: SettingsReader) -> dict[str, Any]:
    length = settings["n_positions"]
    return {
        "model.architecture": "decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": settings["n_embd"],
        "model.num_layers": settings["n_layer"],
        "model.dropout": settings.same("embd_pdrop", "resid_pdrop"),
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.norm.kind": "layernorm",
        "model.norm.epsilon": settings["layer_norm_epsilon"],
        "model.position.kind": "learned",
        "model.position.max_length": length,
        "model.attention.num_heads": settings["n_head"],
        "model.attention.dropout": settings["attn_pdrop"],
        "model.init.std": settings["initializer_range"],
        "data.sequence_length": length,
    }


def gpt1_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for OpenAIGPTLMHeadModel."""
    settings = SettingsReader(rename_settings(hf, NAMES), GPT1, "openai-gpt")
    fields = _common(settings) | {"model.norm.placement": "post"}
    # The class supports only these.
    names = {"gelu": "gelu_new", "relu": "relu", "silu": "silu", "swish": "silu"}
    fields |= settings.choose("afn", {name: ACTIVATIONS[ours] for name, ours in names.items()})
    settings.finish()
    return fields


def gpt2_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for GPT2LMHeadModel."""
    settings = SettingsReader(rename_settings(hf, NAMES), GPT2, "gpt2")
    fields = _common(settings) | {"model.norm.placement": "pre", "model.init.scale_residual": True}
    fields |= settings.choose("activation_function", ACTIVATIONS)
    if (hidden := settings["n_inner"]) is not None:
        fields["model.ffn.hidden_dim"] = hidden
    if not settings["scale_attn_weights"]:
        fields["model.attention.scale"] = 1.0
    settings.expect(False, scale_attn_by_inverse_layer_idx="scores divided by the layer's number are not supported")
    settings.finish()
    return fields


def rules(config: ResolvedConfig, tokens: str, positions: str) -> Rules:
    """Returns the rules of both, which differ in the names of the embeddings."""
    attention = config.attention
    sizes = [
        heads * attention.head_dim for heads in (attention.num_heads, attention.num_kv_heads, attention.num_kv_heads)
    ]

    def layer(config: ResolvedConfig) -> Rules:
        at = "transformer.h.{layer}"
        return [
            *norm("attention_norm", f"{at}.ln_1", config),
            *fused_linear(
                [f"attention/{name}" for name in ("query", "key", "value")],
                f"{at}.attn.c_attn",
                sizes,
                transposed=False,
            ),
            *linear("attention/output", f"{at}.attn.c_proj", transposed=False),
            *norm("ffn_norm", f"{at}.ln_2", config),
            *linear("ffn/up", f"{at}.mlp.c_fc", transposed=False),
            *linear("ffn/down", f"{at}.mlp.c_proj", transposed=False),
        ]

    table = f"transformer.{tokens}.weight"
    return [
        Rule(table, ("embedding",)),
        Rule(f"transformer.{positions}.weight", ("position/table",)),
        *layers(config, layer),
        *(norm("final_norm", "transformer.ln_f", config) if config.norm.placement == "pre" else ()),
        output_head(config, table),
        # The causal mask, and in GPT-1 the position numbers.
        IgnoredTensors(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)"),
        IgnoredTensors(r"transformer\.position_ids"),
    ]


CLASSES = {
    "OpenAIGPTLMHeadModel": Importer(
        gpt1_config,
        lambda config: rules(config, "tokens_embed", "positions_embed"),
        GPT1,
        model_type="openai-gpt",
        prefix="transformer",
        custom_settings={"afn": lambda view: activation(view, "gelu")},
    ),
    "GPT2LMHeadModel": Importer(
        gpt2_config, lambda config: rules(config, "wte", "wpe"), GPT2, model_type="gpt2", prefix="transformer"
    ),
}
