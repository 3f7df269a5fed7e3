"""Configs of the decoders that support a cache: every position scheme with every window and number
of key heads, and everything else that a decoder can have.

Decoders that differ in fields of a layer are layers of one model, which is compiled in half the time.
"""

import itertools

from tests.support.building import ENCODER_DECODER
from zoo.config.kinds import POSITION_KINDS
from zoo.config.scopes import KINDS, overridable, scoped

WINDOWS = (0, 3)
KV_HEADS = (4, 2, 1)
COMBINATIONS = tuple(itertools.product(POSITION_KINDS.by_name, WINDOWS, KV_HEADS))
LOCAL_GLOBAL = {
    "model.layers.pattern": ("local", "local", "global"), "model.num_layers": 4, "model.position.kind": "rope",
    "model.layers.kinds.local.attention.window": 3, "model.layers.kinds.local.position.theta": 50.0,
    "model.layers.kinds.global.attention.num_kv_heads": 1,
}  # fmt: skip
T5_BIAS = {"model.position.kind": "relative_bias", "model.position.buckets": 8, "model.position.max_distance": 10}

DECODERS = {
    "local and global layers, scanned and recomputed in training": LOCAL_GLOBAL | {"model.scan_layers": True, "model.remat": "full"},
    "layers without positions": {
        "model.layers.pattern": ("turned", "plain"), "model.num_layers": 2, "model.position.kind": "rope", "model.layers.kinds.turned.attention.window": 5,
        "model.layers.kinds.plain.position.kind": "none"},
    "windows of two widths, one table of biases": T5_BIAS | {
        "model.layers.pattern": ("near", "far"), "model.num_layers": 2, "model.layers.kinds.near.attention.window": 2,
        "model.layers.kinds.far.attention.window": 6},
    "a table of biases per layer": T5_BIAS | {"model.position.shared": False, "model.attention.window": 4, "model.num_layers": 2},
    "normed heads": {"model.attention.qk_norm": "head", "model.position.kind": "rope"},
    "normed queries and keys": {"model.attention.qk_norm": "full", "model.position.kind": "rope", "model.norm.placement": "reordered"},
    "capped scores": {"model.attention.softcap": 2.0, "model.head.softcap": 3.0, "model.norm.placement": "sandwich"},
    "sinks": {"model.attention.sinks": True, "model.attention.window": 3, "model.attention.num_kv_heads": 2},
    "parallel blocks, one norm, with dropout": {
        "model.parallel": "shared_norm", "model.position.kind": "rope", "model.position.fraction": 0.5, "model.dropout": 0.5,
        "model.attention.dropout": 0.5},
    "parallel blocks, two norms": {"model.parallel": "own_norms"},
    "running statistics": {"model.norm.kind": "batchnorm", "model.norm.placement": "post", "model.head.transform": True},
    "performer": {"model.attention.kind": "performer", "model.attention.num_kv_heads": 2},
    "performer, rope": {"model.attention.kind": "performer", "model.position.kind": "rope", "model.attention.features": 7},
    "linear RoPE scaling": {"model.position.kind": "rope", "model.position.scaling.kind": "linear", "model.position.scaling.factor": 3.0},
    "RoPE scaling of LLaMA 3.1": {"model.position.kind": "rope", "model.position.scaling.kind": "llama3",
                                       "model.position.scaling.factor": 3.0, "model.position.scaling.original_length": 8},
    "YaRN": {"model.position.kind": "rope", "model.position.scaling.kind": "yarn", "model.position.scaling.factor": 3.0,
             "model.position.scaling.original_length": 8},
    "shared queries": {"model.attention.num_query_heads": 2, "model.attention.num_kv_heads": 1, "model.position.kind": "rope"},
    "dilated windows": {"model.attention.window": 3, "model.attention.dilations": (1, 3), "model.position.kind": "alibi"},
    "x0 shortcut, dyt": {"model.norm.placement": "x0_shortcut", "model.norm.kind": "dyt", "model.num_layers": 2},
    "gated heads without their own values": {
        "model.attention.gate": "elementwise", "model.attention.exclusive": True, "model.attention.num_kv_heads": 2},
    "ngpt": {"model.norm.kind": "unit", "model.norm.placement": "interpolated", "model.attention.qk_norm": "unit", "model.ffn.kind": "swiglu",
             "model.ffn.hidden_scale": True, "model.head.logit_scale": True, "model.position.kind": "rope", "model.attention.num_kv_heads": 2},
    "cosines, scores by length, p-RoPE": {
        "model.attention.qk_norm": "cosine", "model.attention.ssmax": 0.3, "model.attention.window": 5, "model.position.kind": "rope",
        "model.position.kept_frequencies": 0.5},
    "sigmoid": {"model.attention.kind": "sigmoid"},
    "experts": {"model.ffn.kind": "moe", "model.ffn.experts.number": 4, "model.ffn.experts.capacity_factor": 0.5,
                "model.ffn.experts.shared_dim": 5},
    "differential": {"model.attention.kind": "differential", "model.attention.num_kv_heads": 2, "model.position.kind": "rope",
                     "model.attention.window": 5},
    "latent": {"model.attention.kind": "latent", "model.position.kind": "rope", "model.attention.window": 5,
               "model.attention.query_latent_dim": 7},
    "latent, dilated, positions of scores": {"model.attention.kind": "latent", "model.position.kind": "alibi", "model.attention.window": 3,
               "model.attention.dilations": (1, 2), "model.attention.exclusive": True, "model.attention.ssmax": 0.4},
    "linear attention": {"model.attention.kind": "linear", "model.attention.key_heads": 2},
    "retention, rotated": {"model.attention.kind": "retnet", "model.position.kind": "rope", "model.attention.value_dim": 6},
    "gated linear attention": {"model.attention.kind": "gated_linear", "model.attention.decay_rank": 3},
    "delta rule without convolutions": {"model.attention.kind": "delta", "model.attention.convolution_width": 0},
    "gated delta rule": {"model.attention.kind": "gated_delta", "model.attention.key_heads": 2, "model.attention.value_dim": 3,
                         "model.attention.negative_eigenvalues": True},
    "HGRN-2": {"model.attention.kind": "hgrn2"},
    "lightning attention": {"model.attention.kind": "lightning"},
    "gated delta rule with decays of elements": {"model.attention.kind": "kimi_delta"},
    "state space model": {"model.attention.kind": "mamba2", "model.attention.key_heads": 2},
    "RWKV-7": {"model.attention.kind": "rwkv7", "model.num_layers": 3, "model.attention.rate_rank": 3, "model.attention.value_dim": 3,
               "model.scan_layers": True},
    "heads of two kinds, normed": {"model.attention.kind": "parallel_heads", "model.attention.window": 3, "model.position.kind": "rope",
                                   "model.attention.num_kv_heads": 2, "model.attention.state_dim": 3},
    "heads of two kinds, added": {"model.attention.kind": "parallel_heads", "model.attention.mixing": "sum",
                                  "model.attention.state_kind": "gated_delta", "model.attention.state_heads": 2},
    "gated convolutions": {"model.attention.kind": "gated_convolution"},
    "talking heads": {"model.attention.kind": "talking_heads", "model.attention.num_kv_heads": 2, "model.position.kind": "rope"},
    "softmax plus one": {"model.attention.kind": "softmax_plus_one"},
    "forget gates": {"model.attention.kind": "forgetting", "model.attention.window": 3},
    "three layers with a state before one with attention, scanned": {
        "model.layers.pattern": ("state", "state", "state", "full"), "model.num_layers": 4, "model.position.kind": "none",
        "model.layers.kinds.state.attention.kind": "gated_delta", "model.layers.kinds.full.attention.kind": "softmax",
        "model.layers.kinds.full.position.kind": "rope", "model.layers.kinds.full.attention.num_kv_heads": 2,
        "model.scan_layers": True},
    "forget gates and canon layers, scanned": {
        "model.attention.kind": "forgetting", "model.convolution.kind": "canon", "model.scan_layers": True, "model.num_layers": 2},
    "forget gates, keys and values shifted, output normed": {
        "model.attention.kind": "forgetting", "model.convolution.kind": "kv_shift", "model.attention.num_kv_heads": 2,
        "model.attention.qk_norm": "head", "model.attention.value_norm": True, "model.attention.output_norm": True, "model.attention.gate": "elementwise"},
    "canon layers": {"model.convolution.kind": "canon", "model.convolution.places": "ABCD"},
    "primer": {"model.convolution.kind": "primer", "model.attention.num_kv_heads": 2, "model.position.kind": "rope"},
    "shifted tokens, performer": {"model.convolution.kind": "token_shift", "model.attention.kind": "performer"},
    "value residual": {"model.attention.kind": "value_residual", "model.attention.value_mix_learned": True, "model.num_layers": 3,
                       "model.attention.window": 3},
    "value embedding": {"model.attention.kind": "value_embedding", "model.attention.value_gate_channels": 3},
    "keys and values of the layer before, scanned": {
        "model.layers.pattern": ("own", "reader"), "model.num_layers": 4, "model.position.kind": "rope", "model.attention.num_kv_heads": 2,
        "model.layers.kinds.own.residual": True, "model.layers.kinds.reader.attention.keys_from": "own", "model.scan_layers": True},
    "layers of shared weights": {"model.layers.distinct": 2, "model.num_layers": 4, "model.position.kind": "rope", "model.scan_layers": True},
    "a loop with more turns than in training": {
        "model.layers.distinct": 3, "model.layers.sharing": "cycle", "model.layers.prelude": 1, "model.layers.reinjection": True,
        "model.num_layers": 5, "model.layers.eval_loops": 3, "model.position.kind": "rope"},
    "xla kernel": {"model.attention.implementation": "xla", "model.attention.window": 4},
    "scaled and normed embeddings": {"model.embedding.scale": "sqrt_dim", "model.embedding.norm": True, "model.norm.placement": "deepnorm"},
}  # fmt: skip

ENCODER_DECODERS = {name: ENCODER_DECODER | overrides for name, overrides in {
    "learned positions": {},
    "T5": T5_BIAS | {"model.norm.kind": "rmsnorm", "model.head.scale": "rsqrt_dim"},
    "canon layers in the decoder": {"model.decoder.convolution.kind": "canon"},
    "umT5": T5_BIAS | {"model.position.shared": False, "model.num_layers": 2},
    "performer": {"model.attention.kind": "performer"},
    "differential": {"model.attention.kind": "differential", "model.attention.lambda_init": 0.4},
    "a window and fewer key heads in the decoder": {
        "model.position.kind": "rope", "model.decoder.attention.window": 3, "model.decoder.attention.num_kv_heads": 2},
    "fewer key heads in cross-attention, shared queries": {
        "model.attention.cross_kv_heads": 1, "model.decoder.attention.num_kv_heads": 2, "model.attention.num_query_heads": 2},
    "encoder and decoder differ": {"model.position.kind": "sinusoidal", "model.encoder.num_layers": 1, "model.decoder.num_layers": 3,
                          "model.decoder.position.kind": "alibi", "model.encoder.attention.kind": "performer"},
    "dynamic RoPE in the encoder": {"model.position.kind": "none", "model.encoder.position.kind": "rope",
                                  "model.encoder.position.scaling.kind": "dynamic", "model.encoder.position.scaling.factor": 2.0,
                                  "model.encoder.position.scaling.original_length": 4},
}.items()}  # fmt: skip


# The decoders that can be layers of one model, by whether they are of another kind than softmax.
LAYERS = [name for name, fields in DECODERS.items() if set(fields) <= set(overridable(f"{KINDS}.a"))]
OF_OTHER_KINDS = [name for name in LAYERS if "model.attention.kind" in DECODERS[name]]
OF_SOFTMAX = [name for name in LAYERS if name not in OF_OTHER_KINDS]
# A layer of each scheme that belongs to a layer.
SCHEMES = {
    f"{position}, window {window}, {kv_heads} key heads": {
        "model.position.kind": position, "model.attention.window": window, "model.attention.num_kv_heads": kv_heads,
        **({"model.position.shared": False} if position == "relative_bias" else {})}
    for position, window, kv_heads in (("rope", 3, 2), ("alibi", 3, 1), ("relative_bias", 0, 2), ("shaw", 3, 4), ("none", 0, 1))
}  # fmt: skip


def as_layers(decoders):
    """Returns the overrides of one model whose layers are those of several decoders, {name: overrides
    of one layer}. It adds sinusoids to the embedding, which every layer sees.
    """
    kinds = [f"l{number}" for number in range(len(decoders))]
    fields = {"model.position.kind": "sinusoidal", "model.layers.pattern": tuple(kinds), "model.num_layers": len(kinds)}
    for kind, layer in zip(kinds, decoders.values(), strict=True):
        fields |= {scoped(f"{KINDS}.{kind}", path): value for path, value in layer.items()}
    return fields


def scheme(position):
    return {} if position == "learned" else {"model.position.kind": position}


def combined(position, window, kv_heads):
    """Returns the overrides for one of `COMBINATIONS`."""
    return scheme(position) | {"model.attention.window": window, "model.attention.num_kv_heads": kv_heads}
