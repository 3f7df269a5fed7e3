"""nanochat (Karpathy 2025) of Hugging Face's transformers 5: LLaMA's tensor names, norms without
factors, also of the embedding, of queries and of keys, and a squared ReLU without a gate.

The class turns queries and keys the other way, by minus the angles of RoPE, before it normalises them.
Turning the pair (a, b) by -t is turning (b, a) by t, and a norm without factors does not see a turn.
So the rows of both halves of each head are exchanged, and the scores are the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from zoo.config import ResolvedConfig
from zoo.interop.families.llama import COMMON, common, rope, rules
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import unpack_rope_parameters
from zoo.interop.weights.mapping import TRANSPOSED, Rule, Rules, Transform, linear

NANOCHAT = {name: value for name, value in COMMON.items() if name != "rope_scaling"} | {
    "vocab_size": 50304, "hidden_size": 768, "intermediate_size": 8192, "num_hidden_layers": 12,
    "num_attention_heads": 6, "hidden_act": "relu2", "final_logit_softcapping": 15.0,
}  # fmt: skip


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for NanoChatForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), NANOCHAT, "nanochat")
    squared = {"relu2": {"model.ffn.kind": "relu_squared"}}
    fields = common(settings, activations=squared | ACTIVATIONS) | rope(settings)
    fields |= {
        "model.norm.scale": False,
        "model.embedding.norm": True,
        "model.attention.qk_norm": "head",
        "model.attention.qk_norm_scale": False,
        "model.head.softcap": settings["final_logit_softcapping"] or 0.0,
    }
    settings.expect(None, rope_scaling="stretched positions are not read for this class")
    settings.finish()
    return fields


def halves_exchanged(heads: int) -> Transform:
    """Returns the arrangement of a matrix [H K, D] in whose heads both halves of K change places."""

    def exchange(x: np.ndarray) -> np.ndarray:
        return x.reshape(heads, 2, -1, *x.shape[1:])[:, ::-1].reshape(x.shape)

    return Transform(lambda x: (exchange(x),), lambda parts: exchange(parts[0]))


def nanochat_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of NanoChatForCausalLM."""

    def feed_forward(config: ResolvedConfig) -> Rules:
        at = "model.layers.{layer}.mlp"
        names = {"up": "fc1", "down": "fc2"}
        return [rule for ours, theirs in names.items() for rule in linear(f"ffn/{ours}", f"{at}.{theirs}", bias=False)]

    def turned(rule: Any) -> Any:
        for name, heads in (("query", config.attention.num_heads), ("key", config.attention.num_kv_heads)):
            if isinstance(rule, Rule) and f"attention/{name}/" in rule.paths[0]:
                vector = rule.paths[0].endswith("bias")
                exchanged = halves_exchanged(heads)
                return replace(rule, transform=exchanged if vector else exchanged.then(TRANSPOSED))
        return rule

    return [turned(rule) for rule in rules(config, feed_forward=feed_forward)]


CLASSES = {
    "NanoChatForCausalLM": Importer(
        read_config, nanochat_rules, NANOCHAT, model_type="nanochat", prefix="model",
        custom_settings={"hidden_act": lambda view: "relu2"},
    )
}  # fmt: skip
