"""Apertus (Apertus Team 2025) of Hugging Face's transformers: LLaMA with queries and keys normalised
head by head, and a feed-forward layer of two matrices with xIELU between them.

The class stores xIELU's two constants beside its two learned numbers: beta, 1/2, and the bound below
which expm1 is computed, -1e-6.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoo.config import ResolvedConfig
from zoo.interop.families.llama import COMMON, common, rope, rules
from zoo.interop.settings.equivalents import ConfigView, activation
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import unpack_rope_parameters
from zoo.interop.weights.mapping import ConstantTensor, Rule, Rules, linear

APERTUS = COMMON | {
    "vocab_size": 131072, "intermediate_size": 14336, "hidden_act": "xielu", "max_position_embeddings": 65536,
    "rms_norm_eps": 1e-5, "rope_theta": 12e6,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192,
                     "low_freq_factor": 1.0, "high_freq_factor": 4.0},
}  # fmt: skip
NORMS = {"attention_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"}
# The bound is -1e-6 in bfloat16, in which the class makes it.
CONSTANTS = {"beta": np.float32(0.5), "eps": np.float32(-9.98377799987793e-07)}
XIELU = {"xielu": {"model.ffn.kind": "xielu"}}


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for ApertusForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf, stretched=True), APERTUS, "apertus")
    fields = common(settings, activations=XIELU | ACTIVATIONS) | rope(settings) | {"model.attention.qk_norm": "head"}
    settings.expect(False, None, mlp_bias="this class has no such biases")
    settings.finish()
    return fields


def apertus_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of ApertusForCausalLM."""

    def feed_forward(config: ResolvedConfig) -> Rules:
        at = "model.layers.{layer}.mlp"
        learned = {"positive": "alpha_p", "negative": "alpha_n"} if config.ffn.kind == "xielu" else {}
        return [
            *(rule for name in ("up", "down") for rule in linear(f"ffn/{name}", f"{at}.{name}_proj", bias=False)),
            *(Rule(f"{at}.act_fn.{theirs}", (f"ffn/{ours}",)) for ours, theirs in learned.items()),
            *(ConstantTensor(f"{at}.act_fn.{name}", value) for name, value in CONSTANTS.items() if learned),
        ]

    return rules(config, norms=NORMS, feed_forward=feed_forward)


def hidden_act(view: ConfigView) -> str:
    """Returns the name of the activation."""
    return "xielu" if view.model.ffn.kind == "xielu" else activation(view)


CLASSES = {
    "ApertusForCausalLM": Importer(
        read_config,
        apertus_rules,
        APERTUS,
        model_type="apertus",
        prefix="model",
        custom_settings={"hidden_act": hidden_act},
    )
}
