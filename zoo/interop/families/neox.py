"""GPT-NeoX (Black et al. 2022; Pythia) and GPT-J (Wang & Komatsuzaki 2021) of transformers.

In both, attention and feed-forward are parallel and RoPE rotates a part of each head. GPT-NeoX has
two norms, RoPE in half layout, and one matrix for query, key and value, head after head; GPT-J has
one norm, interleaved RoPE and a bias in the head.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import rename_settings, rope_fields, rotated_fraction, unpack_rope_parameters
from zoo.interop.weights.mapping import (
    IgnoredTensors,
    Rule,
    Rules,
    TiedTensor,
    fused_linear,
    layers,
    linear,
    norm,
    output_head,
)

NEOX = {
    "vocab_size": 50432, "hidden_size": 6144, "num_hidden_layers": 44, "num_attention_heads": 64,
    "intermediate_size": 24576, "hidden_act": "gelu", "rotary_pct": 0.25, "rotary_emb_base": 10000,
    "attention_dropout": 0.0, "hidden_dropout": 0.0, "max_position_embeddings": 2048, "initializer_range": 0.02,
    "layer_norm_eps": 1e-5, "tie_word_embeddings": False, "use_parallel_residual": True, "rope_scaling": None,
    "attention_bias": True,
}  # fmt: skip
GPTJ = {
    "vocab_size": 50400, "n_positions": 2048, "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_inner": None,
    "rotary_dim": 64, "activation_function": "gelu_new", "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "tie_word_embeddings": False,
}  # fmt: skip
# GPT-J's aliases of settings.
NAMES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}


def neox_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for GPTNeoXForCausalLM."""
    settings = SettingsReader(
        unpack_rope_parameters(hf, theta="rotary_emb_base", fraction="rotary_pct"), NEOX, "gpt_neox"
    )
    dim, heads, share, theta = (
        settings[name] for name in ("hidden_size", "num_attention_heads", "rotary_pct", "rotary_emb_base")
    )
    settings.expect(None, share, partial_rotary_factor="differs from rotary_pct")
    settings.expect(None, theta, rope_theta="differs from rotary_emb_base")
    fields = {
        "model.architecture": "decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": dim,
        "model.num_layers": settings["num_hidden_layers"],
        "model.dropout": settings["hidden_dropout"],
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.parallel": "own_norms" if settings["use_parallel_residual"] else "none",
        "model.norm.kind": "layernorm",
        "model.norm.placement": "pre",
        "model.norm.epsilon": settings["layer_norm_eps"],
        **rotated_fraction(dim // heads, share),
        "model.position.layout": "half",
        "model.attention.num_heads": heads,
        "model.attention.bias": settings["attention_bias"],
        "model.attention.dropout": settings["attention_dropout"],
        "model.ffn.hidden_dim": settings["intermediate_size"],
        "model.init.std": settings["initializer_range"],
    } | settings.choose("hidden_act", ACTIVATIONS)
    fields |= rope_fields(settings, float(theta), settings["rope_scaling"], settings["max_position_embeddings"])
    settings.finish()
    return fields


def neox_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of GPTNeoXForCausalLM."""

    def layer(config: ResolvedConfig) -> Rules:
        at, attention = "gpt_neox.layers.{layer}", config.attention
        width = attention.num_heads * attention.head_dim
        return [
            *norm("attention_norm", f"{at}.input_layernorm", config),
            *fused_linear(
                [f"attention/{name}" for name in ("query", "key", "value")],
                f"{at}.attention.query_key_value",
                [width] * 3,
                attention.bias,
                groups=attention.num_heads,
            ),
            *linear("attention/output", f"{at}.attention.dense", attention.bias),
            *norm("ffn_norm", f"{at}.post_attention_layernorm", config),
            *linear("ffn/up", f"{at}.mlp.dense_h_to_4h"),
            *linear("ffn/down", f"{at}.mlp.dense_4h_to_h"),
        ]

    return [
        Rule("gpt_neox.embed_in.weight", ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "gpt_neox.final_layer_norm", config),
        TiedTensor("embed_out.weight", "gpt_neox.embed_in.weight")
        if config.tie_embeddings
        else Rule("embed_out.weight", ("head/weights",)),
        # Masks and wavelengths of old files.
        IgnoredTensors(r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)"),
        IgnoredTensors(r"gpt_neox\.rotary_emb\.inv_freq"),
    ]


def gptj_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for GPTJForCausalLM."""
    settings = SettingsReader(rename_settings(hf, NAMES), GPTJ, "gptj")
    dim, heads = settings["n_embd"], settings["n_head"]
    width = dim // heads
    # Without a number the class rotates as many dimensions as the model has.
    rotated = settings["rotary_dim"] or dim
    if rotated > width:
        settings.reject("rotary_dim", f"expected the number of rotated dimensions of a head, at most {width}")
        rotated = width
    fields = {
        "model.architecture": "decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": dim,
        "model.num_layers": settings["n_layer"],
        "model.dropout": settings.same("embd_pdrop", "resid_pdrop"),
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.parallel": "shared_norm",
        "model.norm.kind": "layernorm",
        "model.norm.placement": "pre",
        "model.norm.epsilon": settings["layer_norm_epsilon"],
        "model.position.kind": "rope",
        "model.position.fraction": rotated / width,
        "model.position.layout": "interleaved",
        "model.attention.num_heads": heads,
        "model.attention.bias": False,
        "model.attention.dropout": settings["attn_pdrop"],
        "model.head.bias": True,
        "model.init.std": settings["initializer_range"],
        # The class has a table of angles of this length.
        "data.sequence_length": settings["n_positions"],
    } | settings.choose("activation_function", ACTIVATIONS)
    if (hidden := settings["n_inner"]) is not None:
        fields["model.ffn.hidden_dim"] = hidden
    settings.finish()
    return fields


def gptj_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of GPTJForCausalLM."""

    def layer(config: ResolvedConfig) -> Rules:
        at = "transformer.h.{layer}"
        names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
        return [
            *norm("attention_norm", f"{at}.ln_1", config),
            *(
                rule
                for ours, theirs in names.items()
                for rule in linear(f"attention/{ours}", f"{at}.attn.{theirs}", bias=False)
            ),
            *linear("ffn/up", f"{at}.mlp.fc_in"),
            *linear("ffn/down", f"{at}.mlp.fc_out"),
        ]

    return [
        Rule("transformer.wte.weight", ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "transformer.ln_f", config),
        output_head(config, "transformer.wte.weight"),
        Rule("lm_head.bias", ("head/bias",)),
        IgnoredTensors(r"transformer\.h\.\d+\.attn\.(bias|masked_bias|embed_positions)"),
    ]


CLASSES = {
    "GPTNeoXForCausalLM": Importer(neox_config, neox_rules, NEOX, model_type="gpt_neox", prefix="gpt_neox"),
    "GPTJForCausalLM": Importer(gptj_config, gptj_rules, GPTJ, model_type="gptj", prefix="transformer"),
}
