"""PerformerLM of performer-pytorch (Wang 2020, after Choromanski et al. 2021).

It is a decoder or an encoder; its random features are read, too. The library writes no config file:
a config is the dict of the class's arguments. With RoPE, its default, it also adds sinusoids to the
embedding; that is rejected, here by its argument and in weights by the sinusoids' table, which has
no place.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.settings.equivalents import ConfigView, hidden_dim
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Rules, fused_linear, layers, linear, norm

# The class has no default sizes; these are those of the library's example.
PERFORMER_LM = {
    "num_tokens": 20000, "max_seq_len": 2048, "dim": 512, "depth": 12, "heads": 8, "dim_head": 64, "causal": False,
    "ff_mult": 4, "ff_glu": False, "nb_features": None, "feature_redraw_interval": 1000, "tie_embed": False,
    "qkv_bias": False, "attn_out_bias": False, "rotary_position_emb": False, "axial_position_emb": False,
    "local_attn_heads": 0, "reversible": False, "emb_dropout": 0.0, "ff_dropout": 0.0, "attn_dropout": 0.0,
    "generalized_attention": False, "use_scalenorm": False, "use_rezero": False, "cross_attend": False,
    "no_projection": False, "shift_tokens": False,
}  # fmt: skip


def read_config(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for PerformerLM; `rotary_position_emb` defaults to False."""
    settings = SettingsReader(arguments, PERFORMER_LM, "performer-pytorch")
    tied, gated, length = (settings[name] for name in ("tie_embed", "ff_glu", "max_seq_len"))
    architecture = {"model.architecture": "encoder", "objective.kind": "masked"}
    if settings["causal"]:
        architecture = {"model.architecture": "decoder", "objective.kind": "causal"}
    fields = architecture | {
        "model.vocab_size": settings["num_tokens"],
        "model.dim": settings["dim"],
        "model.num_layers": settings["depth"],
        "model.tie_embeddings": tied,
        "model.head.bias": not tied,
        "model.norm.kind": "layernorm",
        "model.norm.placement": "pre",
        "model.norm.epsilon": 1e-5,
        "model.position.kind": "learned",
        "model.position.max_length": length,
        "model.attention.kind": "performer",
        "model.attention.num_heads": settings["heads"],
        "model.attention.head_dim": settings["dim_head"],
        "model.attention.bias": settings.same("qkv_bias", "attn_out_bias"),
        "model.attention.redraw_every": settings["feature_redraw_interval"] or 0,
        "model.ffn.kind": "geglu" if gated else "gelu",
        "model.ffn.hidden_dim": settings["ff_mult"] * settings["dim"],
        "data.sequence_length": length,
    }
    if settings["nb_features"] is not None:
        fields["model.attention.features"] = settings["nb_features"]
    settings.expect(
        False,
        rotary_position_emb="the class adds sinusoids to the embedding besides; two position schemes are not supported",
        axial_position_emb="axial positions are not supported",
        reversible="reversible layers are not supported",
        generalized_attention="only softmax's kernel is supported",
        no_projection="only softmax's kernel is supported",
        use_scalenorm="only LayerNorm is supported",
        use_rezero="only LayerNorm is supported",
        cross_attend="cross-attention is not supported",
        shift_tokens="shifted tokens are not supported",
    )
    settings.expect(
        0,
        emb_dropout="the class drops in other places",
        ff_dropout="the class drops in other places",
        attn_dropout="the class drops in other places",
        local_attn_heads="heads with a window are not supported",
    )
    settings.finish()
    return fields


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of PerformerLM."""

    def layer(config: ResolvedConfig) -> Rules:
        attention, ffn, bias = "performer.net.layers.{layer}.0", "performer.net.layers.{layer}.1", config.attention.bias
        names = {"query": "to_q", "key": "to_k", "value": "to_v", "output": "to_out"}
        up = linear("ffn/up", f"{ffn}.fn.fn.w1")
        if config.ffn.kind == "geglu":
            up = fused_linear(["ffn/gate", "ffn/up"], f"{ffn}.fn.fn.w1", [config.ffn.hidden_dim] * 2)
        return [
            *norm("attention_norm", f"{attention}.norm", config),
            *(
                rule
                for ours, theirs in names.items()
                for rule in linear(f"attention/{ours}", f"{attention}.fn.{theirs}", bias)
            ),
            *norm("ffn_norm", f"{ffn}.norm", config),
            *up,
            *linear("ffn/down", f"{ffn}.fn.fn.w2"),
        ]

    return [
        Rule("token_emb.weight", ("embedding",)),
        *([Rule("pos_emb.emb.weight", ("position/table",))] if config.position.kind == "learned" else ()),
        *layers(config, layer),
        *norm("final_norm", "norm", config),
        *(
            ()
            if config.tie_embeddings
            else (Rule("to_out.weight", ("head/weights",)), Rule("to_out.bias", ("head/bias",)))
        ),
        # RoPE's angles, and a second reference to the layers with a counter of calls.
        IgnoredTensors(r"layer_pos_emb\.emb"),
        IgnoredTensors(r"performer\.proj_updater\..*"),
    ]


def statistics(config: ResolvedConfig) -> Rules:
    """Returns the rules of every layer's random features."""
    return layers(
        config,
        lambda _: [Rule("performer.net.layers.{layer}.0.fn.fast_attention.projection_matrix", ("attention/features",))],
    )


def _multiple(view: ConfigView) -> float:
    """Returns the feed-forward's width as a multiple of the model's."""
    multiple = hidden_dim(view.model) / view.model.dim
    return int(multiple) if multiple == int(multiple) else multiple


# Its dropouts apply in other places than ours and are not written.
CUSTOM_SETTINGS = {
    "ff_mult": _multiple,
    "ff_glu": lambda view: view.model.ffn.kind == "geglu",
    "emb_dropout": lambda view: 0.0,
}
CLASSES = {"PerformerLM": Importer(read_config, rules, PERFORMER_LM, statistics, custom_settings=CUSTOM_SETTINGS)}
