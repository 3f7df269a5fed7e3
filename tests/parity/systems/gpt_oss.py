"""gpt-oss with a single expert, whose router has nothing to choose, so that it is a dense model:
sinks, a window in every other layer, YaRN with exact ends of its ramp, biases, and clamped SwiGLU.

Published ones have 32 and 128 experts, and are refused.
"""

from collections.abc import Mapping
from typing import Any

from tests.parity.systems.decoders import with_rope_scaling
from tests.parity.systems.record import System
from zoo.config import ResolvedConfig
from zoo.interop import Importer
from zoo.interop.families.llama import COMMON, common, rope, rules
from zoo.interop.settings.importer import SettingsReader
from zoo.interop.settings.shared_settings import layer_kind_fields, unpack_rope_parameters, window_layers
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Rules, Transform, fused

EXPERTS = ("num_local_experts", "num_experts_per_tok", "router_aux_loss_coef", "output_router_logits")
WITHOUT_EXPERTS = Transform(lambda x: (x[0],), lambda parts: parts[0][None])


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for GptOssForCausalLM with one expert."""
    settings = SettingsReader(unpack_rope_parameters(hf), COMMON, "gpt_oss")
    for name in EXPERTS:
        settings.get(name)
    settings.expect(None, 7.0, swiglu_limit="expected the bound of the published models")
    settings.expect(None, 1.702, swiglu_alpha="expected the factor of the published models")
    fields = common(settings) | rope(settings) | {
        "model.ffn.kind": "swiglu_clamped", "model.ffn.clamp": 7.0, "model.ffn.bias": True, "model.attention.sinks": True,
    }  # fmt: skip
    fields |= layer_kind_fields(window_layers(settings, [], settings["sliding_window"]))
    settings.finish()
    return fields


def one_expert(config: ResolvedConfig) -> Rules:
    """Returns the rules of a layer's expert, and of its sinks."""
    at, width = "model.layers.{layer}", config.ffn.hidden_dim
    pairs = [fused([width, width], groups=width, axis=axis) for axis in (-1, 0)]
    in_turn = [Transform(lambda x, of=of: of.split(x[0]), lambda parts, of=of: of.join(parts)[None]) for of in pairs]
    experts = f"{at}.mlp.experts"
    return [
        Rule(f"{at}.self_attn.sinks", ("attention/sinks",)),
        Rule(f"{experts}.gate_up_proj", ("ffn/gate/kernel", "ffn/up/kernel"), in_turn[0]),
        Rule(f"{experts}.gate_up_proj_bias", ("ffn/gate/bias", "ffn/up/bias"), in_turn[1]),
        Rule(f"{experts}.down_proj", ("ffn/down/kernel",), WITHOUT_EXPERTS),
        Rule(f"{experts}.down_proj_bias", ("ffn/down/bias",), WITHOUT_EXPERTS),
    ]


def gpt_oss_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of GptOssForCausalLM with one expert, which the router weighs by 1."""
    return [*rules(config, feed_forward=one_expert), IgnoredTensors(r"model\.layers\.\d+\.mlp\.router\.(weight|bias)")]


IMPORTER = Importer(read_config, gpt_oss_rules, COMMON, model_type="gpt_oss", prefix="model")
GPT_OSS: tuple[System, ...] = (
    System(
        "gpt-oss-dense",
        "sinks, a window in every other layer, YaRN not rounded, clamped SwiGLU; one expert",
        "GptOssForCausalLM",
        with_rope_scaling("yarn", original_max_position_embeddings=8, beta_fast=0.6, beta_slow=0.05, truncate=False)
        | {"num_hidden_layers": 2, "sliding_window": 5, "num_local_experts": 1, "num_experts_per_tok": 1},
        length=16,
        kernels=("einsum", "rows"),
        importer=IMPORTER,
    ),
)
