"""Mamba-2 (Dao & Gu 2024) of Hugging Face's transformers: layers of a state space model alone, without
feed-forward layers and positions.

The norm of a layer's output is over the values of each group of heads, as in the authors' code. Files
hold the matrices and convolutions of a layer in one tensor each: gate, values, keys, queries and step
sizes, one after the other.
"""

import math
from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.settings.equivalents import ConfigView, Setting
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.weights.mapping import (
    Rule,
    Rules,
    convolutions,
    fused_linear,
    layers,
    linear,
    norm,
    output_head,
    within,
)

MAMBA2 = {
    "vocab_size": 32768, "hidden_size": 4096, "num_hidden_layers": 64, "num_heads": 128, "head_dim": 64,
    "state_size": 128, "n_groups": 8, "expand": 2, "conv_kernel": 4, "layer_norm_epsilon": 1e-5, "use_bias": False,
    "use_conv_bias": True, "hidden_act": "silu", "initializer_range": 0.1, "time_step_limit": (0.0, math.inf),
    "rescale_prenorm_residual": False, "rms_norm": True, "tie_word_embeddings": False,
}  # fmt: skip
INPUTS = ("gate", "value", "key", "query", "step_size")
CONVOLVED = ("value", "key", "query")


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Mamba2ForCausalLM."""
    settings = SettingsReader(hf, MAMBA2, "mamba2")
    dim, heads, width = settings["hidden_size"], settings["num_heads"], settings["head_dim"]
    if settings["expand"] * dim != heads * width:
        settings.reject("expand", f"hidden_size * expand differs from num_heads * head_dim = {heads * width}")
    settings.expect("silu", "swish", hidden_act="the convolutions and the gate have SiLU here")
    settings.expect(False, use_bias="the projections of a state have no biases here")
    settings.expect(True, use_conv_bias="the convolutions have biases here")
    settings.expect(True, rms_norm="the output of the heads is normalised here")
    if tuple(settings["time_step_limit"] or ()) not in ((), (0.0, math.inf)):
        settings.reject("time_step_limit", "step sizes have no bounds here")
    fields = {
        "model.architecture": "decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": dim,
        "model.num_layers": settings["num_hidden_layers"],
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.norm.kind": "rmsnorm",
        "model.norm.placement": "pre",
        "model.norm.epsilon": settings["layer_norm_epsilon"],
        "model.position.kind": "none",
        "model.attention.kind": "mamba2",
        "model.attention.num_heads": heads,
        "model.attention.head_dim": settings["state_size"],
        "model.attention.value_dim": width,
        "model.attention.key_heads": settings["n_groups"],
        "model.attention.convolution_width": settings["conv_kernel"],
        "model.ffn.kind": "none",
        "model.init.std": settings["initializer_range"],
        "model.init.scale_residual": settings["rescale_prenorm_residual"],
    }
    settings.finish()
    return fields


def mixer_rules(config: ResolvedConfig, at: str) -> list[Rule]:
    """Returns the rules of the mixer of a layer, whose tensors begin with `at`."""
    attention = config.attention
    heads, values = attention.num_heads, attention.num_heads * attention.value_dim
    keys = attention.key_heads * attention.head_dim
    names = [f"{name}_convolution" for name in CONVOLVED]
    return [
        *fused_linear(INPUTS, f"{at}in_proj", (values, values, keys, keys, heads), bias=False),
        *convolutions(names, f"{at}conv1d", (values, keys, keys), bias=True),
        Rule(f"{at}A_log", ("step/log_rate",)),
        Rule(f"{at}dt_bias", ("step/bias",)),
        Rule(f"{at}D", ("skip",)),
        Rule(f"{at}norm.weight", ("scale",)),
        *linear("output", f"{at}out_proj", bias=False),
    ]


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of Mamba2ForCausalLM."""

    def layer(config: ResolvedConfig) -> Rules:
        at = "backbone.layers.{layer}"
        return [
            *norm("attention_norm", f"{at}.norm", config),
            *within("attention", mixer_rules(config, f"{at}.mixer.")),
        ]

    return [
        Rule("backbone.embeddings.weight", ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "backbone.norm_f", config),
        output_head(config, "backbone.embeddings.weight"),
    ]


def _deviations(hf: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns a line where the class has another norm than the authors' code."""
    if (groups := hf.get("n_groups", MAMBA2["n_groups"])) == 1:
        return ()
    return (
        f"n_groups={groups}: the norm is over the values of a group, as in the authors' code (mamba_ssm, group_size); "
        "Mamba2ForCausalLM of transformers normalises over those of all groups",
    )


def _expand(view: ConfigView) -> float:
    """Returns the number of values of all heads over the width, as a whole number if possible."""
    attention = view.model.attention
    wide = attention.num_heads * (attention.value_dim if attention.kind == "mamba2" else attention.head_dim)
    return wide // view.model.dim if wide % view.model.dim == 0 else wide / view.model.dim


SETTINGS: dict[str, Setting] = {
    "state_size": lambda view: view.model.attention.head_dim,
    "head_dim": lambda view: view.model.attention.value_dim,
    "n_groups": lambda view: view.model.attention.key_heads,
    "conv_kernel": lambda view: view.model.attention.convolution_width,
    "expand": _expand,
    "hidden_act": lambda view: "silu",
    "rescale_prenorm_residual": lambda view: view.model.init.scale_residual,
}
CLASSES = {
    "Mamba2ForCausalLM": Importer(
        read_config,
        rules,
        MAMBA2,
        renamed_suffixes={"backbone.embedding.weight": "backbone.embeddings.weight"},
        model_type="mamba2",
        prefix="backbone",
        custom_settings=SETTINGS,
        deviations=_deviations,
    )
}
