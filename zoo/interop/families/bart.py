"""BART (Lewis et al. 2020), mBART (Liu et al. 2020) and Marian of Hugging Face's transformers.

BART and mBART have learned positions with a table of two extra rows, a norm after the embeddings,
and biases everywhere, including the logits. BART is post-norm, mBART pre-norm. Their dropout inside
the feed-forward (`activation_dropout`) is not supported here.

Marian (Junczys-Dowmunt et al. 2018; OPUS-MT) is the original Transformer (Vaswani et al. 2017):
post-norm, sinusoids, and one embedding for both languages and the head, times sqrt(D) with
`scale_embedding`. Sines are the first half of a position's vector and cosines the second, as in the
authors' code; in the paper they alternate.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig, side
from zoo.interop.settings.equivalents import positions
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import rename_settings
from zoo.interop.weights.mapping import (
    IgnoredTensors,
    Rule,
    Rules,
    TiedTensor,
    Transform,
    layers,
    linear,
    norm,
    output_head,
)

BART = {
    "vocab_size": 50265, "max_position_embeddings": 1024, "encoder_layers": 12, "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16, "decoder_layers": 12, "decoder_ffn_dim": 4096, "decoder_attention_heads": 16,
    "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "activation_function": "gelu", "d_model": 1024,
    "dropout": 0.1, "attention_dropout": 0.0, "init_std": 0.02, "scale_embedding": False, "is_encoder_decoder": True,
    "tie_word_embeddings": True,
}  # fmt: skip
MARIAN = BART | {"vocab_size": 58101, "decoder_vocab_size": None, "share_encoder_decoder_embeddings": True}
# Aliases of settings.
NAMES = {"hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads"}
# The buffer is [1, V], to be added to the logits as it is.
ROW = Transform(lambda x: (x[0],), lambda parts: parts[0][None])


def common(settings: SettingsReader, placement: str, embedding_norm: bool, learned: bool) -> dict[str, Any]:
    """Returns the fields that the classes share.

    Args:
        settings: the config's settings.
        placement: norm placement of the class.
        embedding_norm: the class normalises the embeddings.
        learned: positions are learned.
    """
    fields = {
        "model.architecture": "encoder_decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": settings["d_model"],
        "model.num_layers": settings["encoder_layers"],
        "model.dropout": settings["dropout"],
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.embedding.scale": "sqrt_dim" if settings["scale_embedding"] else "none",
        "model.embedding.norm": embedding_norm,
        "model.norm.kind": "layernorm",
        "model.norm.placement": placement,
        "model.norm.epsilon": 1e-5,
        "model.attention.num_heads": settings["encoder_attention_heads"],
        "model.attention.dropout": settings["attention_dropout"],
        "model.ffn.hidden_dim": settings["encoder_ffn_dim"],
        "model.head.bias": True,
        "model.init.std": settings["init_std"],
        "objective.kind": "prefix",
    } | settings.choose("activation_function", ACTIVATIONS)
    for name, field in (
        ("layers", "num_layers"),
        ("attention_heads", "attention.num_heads"),
        ("ffn_dim", "ffn.hidden_dim"),
    ):
        if settings[f"decoder_{name}"] != settings[f"encoder_{name}"]:
            fields[f"model.decoder.{field}"] = settings[f"decoder_{name}"]
    # Old files describe what the class does; if they say otherwise, they describe another class.
    pre = placement == "pre"
    settings.expect(None, pre, normalize_before=f"this class is {placement}-norm")
    settings.expect(None, pre, add_final_layer_norm=f"this class has {'one' if pre else 'none'}")
    settings.expect(
        None,
        embedding_norm,
        normalize_embedding=f"this class does {'' if embedding_norm else 'not '}normalise the embeddings",
    )
    settings.expect(
        None,
        not learned,
        static_position_embeddings=f"this class has {'learned positions' if learned else 'sinusoids'}",
    )
    settings.expect(
        None,
        False,
        add_bias_logits="the bias of the logits is final_logits_bias",
        do_blenderbot_90_layernorm="this class normalises after adding the positions",
    )
    settings.expect(True, is_encoder_decoder="this class has both")
    settings.expect(
        0,
        encoder_layerdrop="leaving out layers in training is not supported",
        decoder_layerdrop="leaving out layers in training is not supported",
    )
    return fields


def _config(hf: Mapping[str, Any], model_type: str, placement: str) -> dict[str, Any]:
    settings = SettingsReader(rename_settings(hf, NAMES), BART, model_type)
    length = settings["max_position_embeddings"]
    fields = common(settings, placement, embedding_norm=True, learned=True) | {
        "model.position.kind": "learned",
        "model.position.offset": 2,
        "model.position.max_length": length,
        "data.sequence_length": length,
    }
    settings.finish()
    return fields


def bart_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for BartForConditionalGeneration."""
    return _config(hf, "bart", "post")


def mbart_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for MBartForConditionalGeneration."""
    return _config(hf, "mbart", "pre")


def marian_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for MarianMTModel."""
    settings = SettingsReader(rename_settings(hf, NAMES), MARIAN, "marian")
    fields = common(settings, "post", embedding_norm=False, learned=False) | {
        "model.position.kind": "sinusoidal",
        "model.position.layout": "half",
    }
    settings.expect(True, share_encoder_decoder_embeddings="both sides read one vocabulary")
    settings.expect(
        None, settings["vocab_size"], decoder_vocab_size="differs from vocab_size, and both sides read one vocabulary"
    )
    settings.finish()
    return fields


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of all three classes; the config decides which apply."""
    table = "model.shared.weight"

    def side_rules(name: str) -> Rules:
        at, seen = f"model.{name}", side(config, name)
        attentions = {"attention": "self_attn"} | ({"cross_attention": "encoder_attn"} if name == "decoder" else {})

        def layer(config: ResolvedConfig) -> Rules:
            here = f"{at}.layers.{{layer}}"
            projections = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
            return [
                *(
                    rule
                    for ours, theirs in attentions.items()
                    for matrix, short in projections.items()
                    for rule in linear(f"{ours}/{matrix}", f"{here}.{theirs}.{short}")
                ),
                *(
                    rule
                    for ours, theirs in attentions.items()
                    for rule in norm(f"{ours}_norm", f"{here}.{theirs}_layer_norm", config)
                ),
                *linear("ffn/up", f"{here}.fc1"),
                *linear("ffn/down", f"{here}.fc2"),
                *norm("ffn_norm", f"{here}.final_layer_norm", config),
            ]

        positions = Rule(f"{at}.embed_positions.weight", (f"{name}/position/table",))
        if config.position.kind == "sinusoidal":
            # Files contain sinusoids, too.
            positions = IgnoredTensors(rf"model\.{name}\.embed_positions\.weight")
        return [
            TiedTensor(f"{at}.embed_tokens.weight", table),
            positions,
            *(norm(f"{name}/embedding_norm", f"{at}.layernorm_embedding", seen) if config.embedding.norm else ()),
            *layers(seen, layer, f"{name}/stack/layers"),
            *(norm(f"{name}/final_norm", f"{at}.layer_norm", seen) if seen.norm.placement == "pre" else ()),
        ]

    return [
        Rule(table, ("embedding",)),
        *side_rules("encoder"),
        *side_rules("decoder"),
        output_head(config, table),
        Rule("final_logits_bias", ("head/bias",), ROW),
    ]


# Only classes with a head write it, and files of headless classes hold everything that is learned.
ZERO_IF_MISSING = ("final_logits_bias",)
# The two extra rows are not counted.
CUSTOM_SETTINGS = {"max_position_embeddings": lambda view: positions(view) - view.model.position.offset}
CLASSES = {
    "BartForConditionalGeneration": Importer(
        bart_config,
        rules,
        BART,
        model_type="bart",
        prefix="model",
        zero_if_missing=ZERO_IF_MISSING,
        custom_settings=CUSTOM_SETTINGS,
    ),
    "MBartForConditionalGeneration": Importer(
        mbart_config,
        rules,
        BART,
        model_type="mbart",
        prefix="model",
        zero_if_missing=ZERO_IF_MISSING,
        custom_settings=CUSTOM_SETTINGS,
    ),
    "MarianMTModel": Importer(
        marian_config, rules, MARIAN, model_type="marian", prefix="model", zero_if_missing=ZERO_IF_MISSING
    ),
}
