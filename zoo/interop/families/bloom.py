"""BLOOM (Scao et al. 2022) of Hugging Face's transformers.

Pre-norm with ALiBi, a norm after the embedding, GELU with the tanh approximation, and one matrix
for query, key and value, head after head.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import rename_settings
from zoo.interop.weights.mapping import Rule, Rules, fused_linear, layers, linear, norm, output_head

BLOOM = {
    "vocab_size": 250880, "hidden_size": 64, "n_layer": 2, "n_head": 8, "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02, "apply_residual_connection_post_layernorm": False, "hidden_dropout": 0.0,
    "attention_dropout": 0.0, "pretraining_tp": 1, "slow_but_exact": False, "tie_word_embeddings": True,
}  # fmt: skip
# Aliases of settings.
NAMES = {"n_embed": "hidden_size", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}


def bloom_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for BloomForCausalLM."""
    settings = SettingsReader(rename_settings(hf, NAMES), BLOOM, "bloom")
    dim = settings["hidden_size"]
    fields = {
        "model.architecture": "decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": dim,
        "model.num_layers": settings["n_layer"],
        "model.dropout": settings["hidden_dropout"],
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.embedding.norm": True,
        "model.norm.kind": "layernorm",
        "model.norm.placement": "pre",
        "model.norm.epsilon": settings["layer_norm_epsilon"],
        "model.position.kind": "alibi",
        "model.attention.num_heads": settings["n_head"],
        "model.attention.dropout": settings["attention_dropout"],
        "model.init.std": settings["initializer_range"],
    } | ACTIVATIONS["gelu_new"]
    settings.expect(
        False, apply_residual_connection_post_layernorm="residual connections around the norm are not supported"
    )
    settings.expect(None, 4 * dim, n_inner="this class has four times hidden_size")
    # When outputs are summed over tensor-parallel parts, their bias is omitted.
    if (parts := settings["pretraining_tp"]) > 1:
        settings.expect(False, slow_but_exact=f"with pretraining_tp={parts} this class leaves out biases")
    settings.finish()
    return fields


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of BloomForCausalLM."""

    def layer(config: ResolvedConfig) -> Rules:
        at, heads = "transformer.h.{layer}", config.attention.num_heads
        return [
            *norm("attention_norm", f"{at}.input_layernorm", config),
            *fused_linear(
                [f"attention/{name}" for name in ("query", "key", "value")],
                f"{at}.self_attention.query_key_value",
                [heads * config.attention.head_dim] * 3,
                groups=heads,
            ),
            *linear("attention/output", f"{at}.self_attention.dense"),
            *norm("ffn_norm", f"{at}.post_attention_layernorm", config),
            *linear("ffn/up", f"{at}.mlp.dense_h_to_4h"),
            *linear("ffn/down", f"{at}.mlp.dense_4h_to_h"),
        ]

    table = "transformer.word_embeddings.weight"
    return [
        Rule(table, ("embedding",)),
        *norm("embedding_norm", "transformer.word_embeddings_layernorm", config),
        *layers(config, layer),
        *norm("final_norm", "transformer.ln_f", config),
        output_head(config, table),
    ]


CLASSES = {"BloomForCausalLM": Importer(bloom_config, rules, BLOOM, model_type="bloom", prefix="transformer")}
