"""Falcon (Almazrouei et al. 2023) and Falcon-RW (Penedo et al. 2023) of Hugging Face's transformers.

Attention and feed-forward layer are parallel: behind one norm with one key/value head (7B), or behind
one or two norms with several (40B and later, `new_decoder_architecture`). One matrix holds query, key
and value, for each key/value head the queries that read it first. Falcon-RW is sequential, with biases
and ALiBi, which is multiplied by the factor on the scores; the class rounds ALiBi to bfloat16, here it
is not rounded.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.settings.equivalents import hidden_dim
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import rename_settings, rope_fields, unpack_rope_parameters
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Rules, fused_linear, layers, linear, norm, output_head

FALCON = {
    "vocab_size": 65024, "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
    "num_ln_in_parallel_attn": None, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "hidden_dropout": 0.0,
    "attention_dropout": 0.0, "num_kv_heads": None, "alibi": False, "new_decoder_architecture": False,
    "multi_query": True, "parallel_attn": True, "bias": False, "max_position_embeddings": 2048,
    "rope_theta": 10000.0, "rope_scaling": None, "ffn_hidden_size": None, "activation": "gelu",
    "tie_word_embeddings": True,
}  # fmt: skip
# Names of settings in the authors' files.
NAMES = {"n_layer": "num_hidden_layers", "n_head": "num_attention_heads", "n_embed": "hidden_size",
         "n_head_kv": "num_kv_heads"}  # fmt: skip


def falcon_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for FalconForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(rename_settings(hf, NAMES)), FALCON, "falcon")
    dim, heads = settings["hidden_size"], settings["num_attention_heads"]
    fields = {
        "model.architecture": "decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": dim,
        "model.num_layers": settings["num_hidden_layers"],
        "model.dropout": settings["hidden_dropout"],
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.parallel": _parallel(settings),
        "model.norm.kind": "layernorm",
        "model.norm.placement": "pre",
        "model.norm.epsilon": settings["layer_norm_epsilon"],
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": _key_heads(settings, heads),
        "model.attention.bias": settings["bias"],
        "model.attention.dropout": settings["attention_dropout"],
        "model.ffn.hidden_dim": settings["ffn_hidden_size"] or 4 * dim,
        "model.ffn.bias": settings["bias"],
        "model.init.std": settings["initializer_range"],
    } | settings.choose("activation", ACTIVATIONS)
    theta, scaling, length = (settings[name] for name in ("rope_theta", "rope_scaling", "max_position_embeddings"))
    if settings["alibi"]:
        fields |= {"model.position.kind": "alibi", "model.position.scaled": True}
    else:
        fields |= rope_fields(settings, float(theta), scaling, length)
    settings.finish()
    return fields


def _parallel(settings: SettingsReader) -> str:
    """Returns the field `model.parallel`."""
    new, norms = settings["new_decoder_architecture"], settings["num_ln_in_parallel_attn"]
    if not settings["parallel_attn"]:
        if new:
            settings.reject("parallel_attn", "this class needs true with new_decoder_architecture")
        return "none"
    if not new:
        settings.expect(None, 1, num_ln_in_parallel_attn="this class has one norm without new_decoder_architecture")
        return "shared_norm"
    settings.expect(None, 1, 2, num_ln_in_parallel_attn="expected 1 or 2 norms")
    return "shared_norm" if norms == 1 else "own_norms"


def falcon_deviations(hf: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns a line where ALiBi is computed in more bits than the class has."""
    if not hf.get("alibi", FALCON["alibi"]):
        return ()
    return (
        "alibi: the class rounds ALiBi's biases to bfloat16, and its eager attention adds them twice; here they are "
        "added once, in float32",
    )


def _key_heads(settings: SettingsReader, heads: int) -> int:
    """Returns the number of key/value heads."""
    given, single = settings["num_kv_heads"], settings["multi_query"]
    if settings["new_decoder_architecture"]:
        return given or heads
    if single:
        return 1
    settings.expect(None, heads, num_kv_heads="this class has as many as query heads without multi_query")
    return heads


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of FalconForCausalLM."""
    first, second = {
        "none": ("input_layernorm", "post_attention_layernorm"),
        "shared_norm": ("input_layernorm", ""),
        "own_norms": ("ln_attn", "ln_mlp"),
    }[config.parallel]

    def layer(config: ResolvedConfig) -> Rules:
        at, attention = "transformer.h.{layer}", config.attention
        keys = attention.num_kv_heads * attention.head_dim
        return [
            *norm("attention_norm", f"{at}.{first}", config),
            *(norm("ffn_norm", f"{at}.{second}", config) if second else ()),
            *fused_linear(
                [f"attention/{name}" for name in ("query", "key", "value")],
                f"{at}.self_attention.query_key_value",
                [attention.num_heads * attention.head_dim, keys, keys],
                attention.bias,
                groups=attention.num_kv_heads,
            ),
            *linear("attention/output", f"{at}.self_attention.dense", attention.bias),
            *linear("ffn/up", f"{at}.mlp.dense_h_to_4h", config.ffn.bias),
            *linear("ffn/down", f"{at}.mlp.dense_4h_to_h", config.ffn.bias),
        ]

    table = "transformer.word_embeddings.weight"
    return [
        Rule(table, ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "transformer.ln_f", config),
        output_head(config, table),
        IgnoredTensors(r"transformer\.(h\.\d+\.self_attention\.)?rotary_emb\.inv_freq"),
    ]


CLASSES = {
    "FalconForCausalLM": Importer(
        falcon_config,
        rules,
        FALCON,
        model_type="falcon",
        prefix="transformer",
        deviations=falcon_deviations,
        custom_settings={
            "alibi": lambda view: view.model.position.kind == "alibi",
            "parallel_attn": lambda view: view.model.parallel != "none",
            "num_ln_in_parallel_attn": lambda view: {"own_norms": 2, "shared_norm": 1}.get(view.model.parallel),
            # Only the new layout has groups of queries.
            "new_decoder_architecture": lambda view: (
                view.model.parallel != "none"
                and (view.model.parallel == "own_norms" or view.model.attention.num_kv_heads != 1)
            ),
            "multi_query": lambda view: view.model.attention.num_kv_heads == 1,
            "num_kv_heads": lambda view: view.model.attention.num_kv_heads,
            "bias": lambda view: view.model.attention.bias,
            "ffn_hidden_size": lambda view: hidden_dim(view.model),
        },
    )
}
