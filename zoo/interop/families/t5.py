"""T5 (Raffel et al. 2020) and its successors of Hugging Face's transformers.

    T5ForConditionalGeneration     v1.0: ReLU, tied embedding and head, hidden states times
                                   1 / sqrt(D) before the head; v1.1: GeGLU with the tanh
                                   approximation, untied head; ByT5 is v1.1 over bytes
    MT5ForConditionalGeneration    v1.1 over many languages
    UMT5ForConditionalGeneration   v1.1 with a table of relative positions in every layer
    T5EncoderModel and its like    the encoder alone

In all of them scores are not scaled, nothing has a bias, and the heads' widths need not add up to
D. Their dropout inside the feed-forward and after the last norm is not supported here.
"""

from collections.abc import Callable, Mapping
from typing import Any

from zoo.config import GATED, ResolvedConfig, side
from zoo.interop.settings.equivalents import activation, given_tie
from zoo.interop.settings.importer import ACTIVATIONS, GATED_ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import rename_settings
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Rules, TiedTensor, layers, linear, norm, output_head

T5 = {
    "vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_decoder_layers": None,
    "num_heads": 8, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "dropout_rate": 0.1,
    "layer_norm_epsilon": 1e-6, "feed_forward_proj": "relu", "is_encoder_decoder": True, "tie_word_embeddings": True,
}  # fmt: skip
MT5 = T5 | {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False}  # fmt: skip
UMT5 = MT5 | {"tie_word_embeddings": True}
# Aliases of settings.
NAMES = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "head_dim": "d_kv",
}


def _feed_forward(settings: SettingsReader) -> dict[str, Any]:
    """Returns the feed-forward's kind for "relu", "gated-gelu" and the like.

    The two settings that follow from the name take precedence if they are given.
    """
    name = settings["feed_forward_proj"]
    gated, activation = name.startswith("gated-"), name.removeprefix("gated-")
    # T5's authors computed the gate's GELU with tanh, so this name means that form.
    activation = "gelu_new" if name == "gated-gelu" else activation
    gated, activation = settings.get("is_gated_act", gated), settings.get("dense_act_fn", activation)
    table = GATED_ACTIVATIONS if gated else ACTIVATIONS
    if activation not in table:
        settings.reject(
            "feed_forward_proj", f"expected one of {', '.join(ACTIVATIONS)}, with or without gated- before it"
        )
    return table.get(activation, {})


def _config(hf: Mapping[str, Any], model_type: str, defaults: Mapping[str, Any], shared: bool) -> dict[str, Any]:
    settings = SettingsReader(rename_settings(hf, NAMES), defaults, model_type)
    # transformers 5 writes every model as tied, and by this setting what it was before; mT5 lacks the
    # setting there, and is what its published checkpoints are: untied, without the factor.
    untied = model_type == "mt5" and str(hf.get("transformers_version", "")).startswith("5.")
    scaled, depth = settings.get("scale_decoder_outputs", False if untied else None), settings["num_layers"]
    tied = settings["tie_word_embeddings"] and scaled is not False
    decoder_depth = depth if settings["num_decoder_layers"] is None else settings["num_decoder_layers"]
    fields = {
        "model.architecture": "encoder_decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": settings["d_model"],
        "model.num_layers": depth,
        "model.dropout": settings["dropout_rate"],
        "model.tie_embeddings": tied,
        "model.head.scale": "rsqrt_dim" if (tied if scaled is None else scaled) else "none",
        "model.norm.kind": "rmsnorm",
        "model.norm.placement": "pre",
        "model.norm.epsilon": settings["layer_norm_epsilon"],
        "model.position.kind": "relative_bias",
        "model.position.buckets": settings["relative_attention_num_buckets"],
        "model.position.max_distance": settings["relative_attention_max_distance"],
        "model.position.shared": shared,
        "model.attention.num_heads": settings["num_heads"],
        "model.attention.head_dim": settings["d_kv"],
        "model.attention.scale": 1.0,
        "model.attention.bias": False,
        "model.attention.dropout": settings["dropout_rate"],
        "model.ffn.hidden_dim": settings["d_ff"],
        "model.ffn.bias": False,
        "objective.kind": "prefix",
    } | _feed_forward(settings)
    if decoder_depth != depth:
        fields["model.decoder.num_layers"] = decoder_depth
    settings.expect(True, is_encoder_decoder="this class has both")
    settings.finish()
    return fields


def t5_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for T5ForConditionalGeneration."""
    return _config(hf, "t5", T5, shared=True)


def mt5_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for MT5ForConditionalGeneration."""
    return _config(hf, "mt5", MT5, shared=True)


def umt5_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for UMT5ForConditionalGeneration."""
    return _config(hf, "umt5", UMT5, shared=False)


def _side_rules(config: ResolvedConfig, name: str, at: str = "") -> Rules:
    """Returns the rules of the encoder or the decoder.

    Args:
        config: the `model` part as that side sees it.
        name: "encoder" or "decoder".
        at: what the paths of its parameters begin with.
    """
    gated, shared = config.ffn.kind in ("reglu", "geglu", "swiglu"), config.position.shared
    matrices = {"gate": "wi_0", "up": "wi_1", "down": "wo"} if gated else {"up": "wi", "down": "wo"}
    bias = "layer.0.SelfAttention.relative_attention_bias.weight"
    # Sublayers are numbered; the decoder's cross-attention is the second one.
    attentions = {"attention": "layer.0.SelfAttention"} | (
        {"cross_attention": "layer.1.EncDecAttention"} if name == "decoder" else {}
    )
    last = f"layer.{len(attentions)}"

    def layer(config: ResolvedConfig) -> Rules:
        block = f"{name}.block.{{layer}}"
        return [
            *(rule for ours, theirs in attentions.items() for matrix in ("query", "key", "value", "output")
              for rule in linear(f"{ours}/{matrix}", f"{block}.{theirs}.{matrix[0]}", bias=False)),
            *(rule for number, ours in enumerate(attentions)
              for rule in norm(f"{ours}_norm", f"{block}.layer.{number}.layer_norm", config)),
            *([] if shared else [Rule(f"{block}.{bias}", ("attention/position/table",))]),
            *norm("ffn_norm", f"{block}.{last}.layer_norm", config),
            *(rule for ours, theirs in matrices.items()
              for rule in linear(f"ffn/{ours}", f"{block}.{last}.DenseReluDense.{theirs}", bias=False)),
        ]  # fmt: skip

    return [
        TiedTensor(f"{name}.embed_tokens.weight", "shared.weight"),
        *([Rule(f"{name}.block.0.{bias}", (f"{at}position/table",))] if shared else []),
        *layers(config, layer, f"{at}stack/layers"),
        *norm(f"{at}final_norm", f"{name}.final_layer_norm", config),
    ]


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of the three classes with both sides."""
    return [
        Rule("shared.weight", ("embedding",)),
        *_side_rules(side(config, "encoder"), "encoder", "encoder/"),
        *_side_rules(side(config, "decoder"), "decoder", "decoder/"),
        output_head(config, "shared.weight"),
        # The first checkpoints contain a table for cross-attention that nothing reads.
        IgnoredTensors(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"),
    ]


def encoder_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of the three classes of encoders; the decoder of a whole file is left out."""
    return [
        Rule("shared.weight", ("embedding",)),
        *_side_rules(config, "encoder"),
        IgnoredTensors(r"decoder\..*|lm_head\.weight"),
    ]


def encoder_reader(model_type: str, defaults: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Returns the function that reads the settings of an encoder: those of the whole model."""

    def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in hf.items() if name not in ("num_decoder_layers", "is_encoder_decoder")}
        fields = _config(given, model_type, defaults, shared=model_type != "umt5")
        # The head is the embedding, so it has no parameters: the class has none.
        encoder = {"model.architecture": "encoder", "objective.kind": "masked", "model.tie_embeddings": True}
        return fields | encoder | {"model.head.scale": "none"}

    return read_config


# These follow from the feed-forward's name, unless the gate's GELU is the exact one.
CUSTOM_SETTINGS = {"is_gated_act": lambda view: view.model.ffn.kind in GATED, "dense_act_fn": activation}
CLASSES = {
    "T5ForConditionalGeneration": Importer(t5_config, rules, T5, model_type="t5", custom_settings=CUSTOM_SETTINGS),
    "MT5ForConditionalGeneration": Importer(mt5_config, rules, MT5, model_type="mt5", custom_settings=CUSTOM_SETTINGS),
    "UMT5ForConditionalGeneration": Importer(
        umt5_config, rules, UMT5, model_type="umt5", custom_settings=CUSTOM_SETTINGS
    ),
} | {
    f"{name}EncoderModel": Importer(
        encoder_reader(model_type, defaults),
        encoder_rules,
        {name: value for name, value in defaults.items() if name not in ("num_decoder_layers", "is_encoder_decoder")},
        model_type=model_type,
        note="a model without a head: its scores of tokens mean nothing; start another run from it",
        custom_settings=CUSTOM_SETTINGS | {"tie_word_embeddings": given_tie},
    )
    for name, model_type, defaults in (("T5", "t5", T5), ("MT5", "mt5", MT5), ("UMT5", "umt5", UMT5))
}
