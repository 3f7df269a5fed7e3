"""MPT (MosaicML 2023) of Hugging Face's transformers.

Pre-norm with ALiBi and exact GELU, no biases, not even in norms, and one matrix for query, key and
value, all queries first. The class ignores many settings of MosaicML's own code; values that would
change the result there are rejected.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.settings.equivalents import ConfigView, scales_scores
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import rename_settings
from zoo.interop.weights.mapping import Rule, Rules, fused_linear, layers, linear, norm, output_head

MPT = {
    "vocab_size": 50368, "d_model": 2048, "n_heads": 16, "n_layers": 24, "expansion_ratio": 4, "resid_pdrop": 0.0,
    "emb_pdrop": 0.0, "layer_norm_epsilon": 1e-5, "no_bias": True, "logit_scale": None, "embedding_fraction": 1.0,
    "norm_type": "low_precision_layernorm", "initializer_range": 0.02, "tie_word_embeddings": True,
    "attn_config": None,
}  # fmt: skip
ATTENTION = {
    "attn_type": "multihead_attention", "attn_pdrop": 0.0, "clip_qkv": None, "softmax_scale": None,
    "prefix_lm": False, "qk_ln": False, "attn_uses_sequence_id": False, "alibi": True, "alibi_bias_max": 8,
}  # fmt: skip
# Aliases of settings.
NAMES = {"hidden_size": "d_model", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"}


def _attention(settings: SettingsReader) -> dict[str, Any]:
    """Returns the fields of the nested attention config."""
    inner = SettingsReader(settings["attn_config"] or {}, ATTENTION, "mpt.attn_config", prefix="attn_config.")
    fields = {"model.attention.dropout": inner["attn_pdrop"]}
    if (scale := inner["softmax_scale"]) is not None:
        fields["model.attention.scale"] = scale
    inner.expect("multihead_attention", attn_type="this class has as many key heads as query heads")
    inner.expect(None, 0, clip_qkv="clipping queries, keys and values is not supported")
    inner.expect(
        False,
        qk_ln="this class does not normalise queries and keys",
        prefix_lm="this class is causal from the first token on",
        attn_uses_sequence_id="this class does not read which document a token is of",
    )
    inner.expect(True, alibi="this class always has ALiBi")
    inner.expect(8, alibi_bias_max="this class always has slopes down to 2^-8")
    settings.include(inner)
    return fields


def mpt_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for MptForCausalLM."""
    settings = SettingsReader(rename_settings(hf, NAMES), MPT, "mpt")
    fields = {
        "model.architecture": "decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": settings["d_model"],
        "model.num_layers": settings["n_layers"],
        "model.dropout": settings.same("emb_pdrop", "resid_pdrop"),
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.norm.kind": "layernorm",
        "model.norm.placement": "pre",
        "model.norm.epsilon": settings["layer_norm_epsilon"],
        "model.norm.bias": False,
        "model.position.kind": "alibi",
        "model.attention.num_heads": settings["n_heads"],
        "model.attention.bias": False,
        "model.ffn.bias": False,
        "model.init.std": settings["initializer_range"],
    } | ACTIVATIONS["gelu"] | _attention(settings)  # fmt: skip
    settings.expect(4, expansion_ratio="this class has four times d_model")
    settings.expect(True, no_bias="this class has no biases")
    settings.expect(None, logit_scale="this class does not scale the logits")
    settings.expect(1, embedding_fraction="this class does not scale the embedding's gradient")
    settings.expect("low_precision_layernorm", "layernorm", norm_type="this class has LayerNorm")
    settings.finish()
    return fields


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of MptForCausalLM."""

    def layer(config: ResolvedConfig) -> Rules:
        at = "transformer.blocks.{layer}"
        return [
            *norm("attention_norm", f"{at}.norm_1", config),
            *fused_linear(
                [f"attention/{name}" for name in ("query", "key", "value")],
                f"{at}.attn.Wqkv",
                [config.dim] * 3,
                bias=False,
            ),
            *linear("attention/output", f"{at}.attn.out_proj", bias=False),
            *norm("ffn_norm", f"{at}.norm_2", config),
            *linear("ffn/up", f"{at}.ffn.up_proj", bias=False),
            *linear("ffn/down", f"{at}.ffn.down_proj", bias=False),
        ]

    table = "transformer.wte.weight"
    return [
        Rule(table, ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "transformer.norm_f", config),
        output_head(config, table),
    ]


def _written_attention(view: ConfigView) -> dict[str, Any]:
    scale = None if scales_scores(view) else view.model.attention.scale
    return ATTENTION | {"attn_pdrop": view.model.attention.dropout, "softmax_scale": scale}


CLASSES = {
    "MptForCausalLM": Importer(
        mpt_config,
        rules,
        MPT,
        model_type="mpt",
        prefix="transformer",
        custom_settings={"attn_config": _written_attention},
    )
}
