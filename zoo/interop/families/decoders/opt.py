"""OPT (Zhang et al. 2022) of Hugging Face's transformers, and Galactica (Taylor et al. 2022).

Pre-norm with learned positions, whose table has two rows in front that no position uses; the model of
350M parameters has post-norm and narrow embeddings of tokens. The class drops out the outputs of
sublayers and not the embedding; here both have one rate.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.settings.equivalents import positions
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.weights.mapping import Rule, Rules, layers, linear, norm, output_head

OPT = {
    "vocab_size": 50272, "hidden_size": 768, "num_hidden_layers": 12, "ffn_dim": 3072, "max_position_embeddings": 2048,
    "do_layer_norm_before": True, "_remove_final_layer_norm": False, "word_embed_proj_dim": None, "dropout": 0.1,
    "attention_dropout": 0.0, "num_attention_heads": 12, "activation_function": "relu", "layerdrop": 0.0,
    "init_std": 0.02, "enable_bias": True, "layer_norm_elementwise_affine": True, "tie_word_embeddings": True,
}  # fmt: skip
UNUSED_ROWS = 2


def opt_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for OPTForCausalLM."""
    settings = SettingsReader(hf, OPT, "opt")
    dim, pre = settings["hidden_size"], settings["do_layer_norm_before"]
    width, learned = settings["word_embed_proj_dim"], settings["layer_norm_elementwise_affine"]
    narrow = width is not None and width != dim
    fields = {
        "model.architecture": "decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": dim,
        "model.num_layers": settings["num_hidden_layers"],
        "model.dropout": settings["dropout"],
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.embedding.dim": width if narrow else 0,
        "model.embedding.projection": "tokens" if narrow else "sum",
        "model.norm.kind": "layernorm",
        "model.norm.placement": "pre" if pre else "post",
        "model.norm.epsilon": 1e-5,
        "model.norm.scale": learned,
        "model.norm.bias": learned,
        "model.position.kind": "learned",
        "model.position.max_length": settings["max_position_embeddings"],
        "model.position.offset": UNUSED_ROWS,
        "model.attention.num_heads": settings["num_attention_heads"],
        "model.attention.bias": settings["enable_bias"],
        "model.attention.dropout": settings["attention_dropout"],
        "model.ffn.hidden_dim": settings["ffn_dim"],
        "model.ffn.bias": settings["enable_bias"],
        "model.init.std": settings["init_std"],
        # No row can be longer than the table.
        "data.sequence_length": settings["max_position_embeddings"],
    } | settings.choose("activation_function", ACTIVATIONS)
    settings.expect(0, layerdrop="layers are not dropped")
    if pre:
        settings.expect(False, _remove_final_layer_norm="a pre-norm model has a norm after the last layer")
    else:
        settings.get("_remove_final_layer_norm")
    settings.finish()
    return fields


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of OPTForCausalLM."""

    def layer(config: ResolvedConfig) -> Rules:
        at = "model.decoder.layers.{layer}"
        names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
        return [
            *norm("attention_norm", f"{at}.self_attn_layer_norm", config),
            *(
                rule
                for ours, theirs in names.items()
                for rule in linear(f"attention/{ours}", f"{at}.self_attn.{theirs}", config.attention.bias)
            ),
            *norm("ffn_norm", f"{at}.final_layer_norm", config),
            *linear("ffn/up", f"{at}.fc1", config.ffn.bias),
            *linear("ffn/down", f"{at}.fc2", config.ffn.bias),
        ]

    table = "model.decoder.embed_tokens.weight"
    return [
        Rule(table, ("embedding",)),
        Rule("model.decoder.embed_positions.weight", ("position/table",)),
        *(linear("embedding_projection", "model.decoder.project_in", bias=False) if config.embedding.dim else ()),
        *layers(config, layer),
        *(norm("final_norm", "model.decoder.final_layer_norm", config) if config.norm.placement == "pre" else ()),
        *(linear("head/dense", "model.decoder.project_out", bias=False) if config.embedding.dim else ()),
        output_head(config, table),
    ]


CLASSES = {
    "OPTForCausalLM": Importer(
        opt_config,
        rules,
        OPT,
        model_type="opt",
        prefix="model",
        custom_settings={
            "max_position_embeddings": lambda view: (
                view.model.position.max_length if view.model.position.kind == "learned" else positions(view)
            ),
            "do_layer_norm_before": lambda view: view.model.norm.placement == "pre",
            "word_embed_proj_dim": lambda view: view.model.embedding.dim or view.model.dim,
            "enable_bias": lambda view: view.model.attention.bias,
            "layer_norm_elementwise_affine": lambda view: view.model.norm.scale,
        },
    )
}
