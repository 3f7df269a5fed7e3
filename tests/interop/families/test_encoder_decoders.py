"""Configs of T5, BART and Marian: published files, unsupported settings, and tensors that a file may
hold in addition to the parameters.
"""

import numpy as np
import pytest

from tests.parity.harness import resolved
from tests.parity.systems import SYSTEMS
from tests.support.building import random_values
from zoo.errors import ConfigError, DataError
from zoo.interop import importer_of, resolve_like
from zoo.interop.model_weights import export_weights, import_weights
from zoo.models.architectures import make_model

T5, MT5, UMT5 = "T5ForConditionalGeneration", "MT5ForConditionalGeneration", "UMT5ForConditionalGeneration"
BART, MBART, MARIAN = "BartForConditionalGeneration", "MBartForConditionalGeneration", "MarianMTModel"

# Settings of published files, without names, generation defaults and the like.
OPUS = {
    "activation_dropout": 0.0, "activation_function": "swish", "add_bias_logits": False, "add_final_layer_norm": False,
    "attention_dropout": 0.0, "classif_dropout": 0.0, "classifier_dropout": 0.0, "d_model": 512, "decoder_attention_heads": 8,
    "decoder_ffn_dim": 2048, "decoder_layerdrop": 0.0, "decoder_layers": 6, "decoder_vocab_size": 58101, "dropout": 0.1,
    "encoder_attention_heads": 8, "encoder_ffn_dim": 2048, "encoder_layerdrop": 0.0, "encoder_layers": 6, "extra_pos_embeddings": 58101,
    "force_bos_token_to_be_generated": False, "gradient_checkpointing": False, "init_std": 0.02, "is_encoder_decoder": True,
    "max_position_embeddings": 512, "model_type": "marian", "normalize_before": False, "normalize_embedding": False,
    "num_hidden_layers": 6, "scale_embedding": True, "share_encoder_decoder_embeddings": True, "static_position_embeddings": True,
    "vocab_size": 58101,
}  # fmt: skip
BART_BASE = {
    "activation_dropout": 0.1, "activation_function": "gelu", "add_bias_logits": False, "add_final_layer_norm": False,
    "attention_dropout": 0.1, "classif_dropout": 0.1, "classifier_dropout": 0.0, "d_model": 768, "decoder_attention_heads": 12,
    "decoder_ffn_dim": 3072, "decoder_layerdrop": 0.0, "decoder_layers": 6, "dropout": 0.1, "encoder_attention_heads": 12,
    "encoder_ffn_dim": 3072, "encoder_layerdrop": 0.0, "encoder_layers": 6, "gradient_checkpointing": False, "init_std": 0.02,
    "is_encoder_decoder": True, "max_position_embeddings": 1024, "normalize_before": False, "normalize_embedding": True,
    "num_hidden_layers": 6, "scale_embedding": False, "vocab_size": 50265,
}  # fmt: skip
MBART_LARGE = {"_num_labels": 3, "add_final_layer_norm": True, "normalize_before": True, "normalize_embedding": True,
               "output_past": False, "scale_embedding": True, "static_position_embeddings": False, "vocab_size": 250027}  # fmt: skip
FLAN = {
    "d_ff": 1024, "d_kv": 64, "d_model": 512, "dense_act_fn": "gelu_new", "dropout_rate": 0.1, "feed_forward_proj": "gated-gelu",
    "initializer_factor": 1.0, "is_encoder_decoder": True, "is_gated_act": True, "layer_norm_epsilon": 1e-6, "model_type": "t5",
    "n_positions": 512, "num_decoder_layers": 8, "num_heads": 6, "num_layers": 8, "output_past": True,
    "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32, "tie_word_embeddings": False, "vocab_size": 32128,
}  # fmt: skip


def model_of(class_name, hf):
    return resolve_like(class_name, hf, {"data.tokenizer.kind": "characters"}).model


def test_published_marian_config():
    model = model_of(MARIAN, OPUS)
    assert (model.norm.placement, model.position.kind, model.position.layout, model.position.offset) == (
        "post",
        "sinusoidal",
        "half",
        0,
    )
    assert (model.ffn.kind, model.embedding.scale, model.tie_embeddings, model.head.bias) == (
        "silu",
        "sqrt_dim",
        True,
        True,
    )
    assert (model.num_layers, model.dropout, model.attention.dropout, model.embedding.norm) == (6, 0.1, 0.0, False)


def test_published_bart_and_mbart_configs():
    one, other = model_of(BART, BART_BASE), model_of(MBART, MBART_LARGE)
    assert (one.norm.placement, one.position.offset, one.position.max_length, one.embedding.scale) == (
        "post",
        2,
        1024,
        "none",
    )
    assert (one.dropout, one.attention.dropout) == (0.1, 0.1)
    assert (other.norm.placement, other.embedding.norm, other.embedding.scale) == ("pre", True, "sqrt_dim")


def test_published_t5_config():
    model = model_of(T5, FLAN)
    assert (model.ffn.kind, model.ffn.gelu_approximation, model.tie_embeddings, model.head.scale) == (
        "geglu",
        "tanh",
        False,
        "none",
    )
    assert (model.attention.scale, model.attention.head_dim, model.position.shared) == (1.0, 64, True)
    assert model_of(T5, {}).head.scale == "rsqrt_dim"
    assert not model_of(UMT5, {}).position.shared


def test_encoder_and_decoder_differ_only_where_the_file_does():
    plain = importer_of(MARIAN).read_config(OPUS)
    assert not [path for path in plain if path.startswith(("model.encoder.", "model.decoder."))]
    uneven = importer_of(BART).read_config(
        {"encoder_layers": 12, "decoder_layers": 3, "decoder_ffn_dim": 8, "decoder_attention_heads": 2}
    )
    assert uneven["model.num_layers"] == 12
    assert {path: value for path, value in uneven.items() if path.startswith("model.decoder.")} == {
        "model.decoder.num_layers": 3,
        "model.decoder.ffn.hidden_dim": 8,
        "model.decoder.attention.num_heads": 2,
    }
    byt5 = importer_of(T5).read_config({"num_layers": 12, "num_decoder_layers": 4})
    assert (byt5["model.num_layers"], byt5["model.decoder.num_layers"]) == (12, 4)


@pytest.mark.parametrize(("settings", "kind", "approximation"), [
    ({"feed_forward_proj": "relu"}, "relu", "none"),
    ({"feed_forward_proj": "gelu"}, "gelu", "none"),
    ({"feed_forward_proj": "gated-gelu"}, "geglu", "tanh"),
    ({"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu"}, "geglu", "none"),
    ({"feed_forward_proj": "gated-silu"}, "swiglu", "none"),
    ({"feed_forward_proj": "gated-relu"}, "reglu", "none"),
    ({"feed_forward_proj": "relu", "dense_act_fn": "gelu_new", "is_gated_act": True}, "geglu", "tanh"),
])  # fmt: skip
def test_t5_feed_forward_kinds(settings, kind, approximation):
    ffn = model_of(T5, settings).ffn
    assert (ffn.kind, ffn.gelu_approximation) == (kind, approximation)


@pytest.mark.parametrize(("class_name", "settings", "message"), [
    (T5, {"feed_forward_proj": "gated-mish"}, "feed_forward_proj='gated-mish': expected one of relu, gelu"),
    (T5, {"feed_forward_proj": "double-gelu"}, "feed_forward_proj='double-gelu'"),
    (T5, {"is_encoder_decoder": False}, "is_encoder_decoder=False: this class has both"),
    (T5, {"tie_encoder_decoder": True}, "tie_encoder_decoder=True: expected False"),
    (T5, {"is_decoder": True}, "is_decoder=True: expected False"),
    (T5, {"relative_attention_num_buckets": 30}, "model.position.buckets=30 must be divisible by 4"),
    (T5, {"relative_attention_max_distance": 16}, "model.position.max_distance=16 must be above 16"),
    (MARIAN, {"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings=False: both sides read one vocabulary"),
    (MARIAN, {"decoder_vocab_size": 7}, "decoder_vocab_size=7: differs from vocab_size"),
    (MARIAN, {"normalize_before": True}, "normalize_before=True: this class is post-norm"),
    (MARIAN, {"normalize_embedding": True}, "normalize_embedding=True: this class does not normalise the embeddings"),
    (MARIAN, {"add_final_layer_norm": True}, "add_final_layer_norm=True: this class has none"),
    (MARIAN, {"static_position_embeddings": False}, "static_position_embeddings=False: this class has sinusoids"),
    (MARIAN, {"activation_function": "mish"}, "activation_function='mish': expected one of relu"),
    (MARIAN, {"decoder_layerdrop": 0.1}, "decoder_layerdrop=0.1: leaving out layers"),
    (MARIAN, {"is_encoder_decoder": False}, "is_encoder_decoder=False: this class has both"),
    (BART, {"normalize_before": True}, "normalize_before=True: this class is post-norm"),
    (BART, {"normalize_embedding": False}, "normalize_embedding=False: this class does normalise the embeddings"),
    (BART, {"static_position_embeddings": True}, "static_position_embeddings=True: this class has learned positions"),
    (BART, {"add_bias_logits": True}, "add_bias_logits=True: the bias of the logits is final_logits_bias"),
    (BART, {"encoder_layerdrop": 0.1}, "encoder_layerdrop=0.1: leaving out layers"),
    (MBART, {"normalize_before": False}, "normalize_before=False: this class is pre-norm"),
    (MBART, {"add_final_layer_norm": False}, "add_final_layer_norm=False: this class has one"),
])  # fmt: skip
def test_unsupported_settings_are_rejected_by_name(class_name, settings, message):
    with pytest.raises(ConfigError) as caught:
        model_of(class_name, settings)
    assert [problem for problem in caught.value.problems if problem.startswith(message)], caught.value.problems


@pytest.mark.parametrize(("class_name", "one", "other"), [
    (T5, {"hidden_size": 64, "num_attention_heads": 3, "num_hidden_layers": 5}, {"d_model": 64, "num_heads": 3, "num_layers": 5}),
    (BART, {"hidden_size": 64, "num_attention_heads": 2}, {"d_model": 64, "encoder_attention_heads": 2}),
])  # fmt: skip
def test_alternative_setting_names(class_name, one, other):
    assert (
        importer_of(class_name).read_config(one)
        == importer_of(class_name).read_config(other)
        != importer_of(class_name).read_config({})
    )


def random_tensors(name):
    """Returns the class, the config and random tensors of a system."""
    system = next(system for system in SYSTEMS if system.name == name)
    config = resolved(system, system.settings)
    return system.reference, config, export_weights(system.reference, config, random_values(make_model(config)), {})


@pytest.mark.parametrize(("name", "constants", "tied"), [
    ("t5", {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": np.ones((8, 4), np.float32)},
     ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")),
    ("transformer", {f"model.{side}.embed_positions.weight": np.ones((20, 32), np.float32) for side in ("encoder", "decoder")},
     ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")),
])  # fmt: skip
def test_redundant_and_tied_tensors(name, constants, tied):
    reference, config, tensors = random_tensors(name)
    table = tensors["shared.weight" if name == "t5" else "model.shared.weight"]
    params, _ = import_weights(reference, config, tensors | constants | dict.fromkeys(tied, table))
    np.testing.assert_array_equal(params["embedding"], table)
    with pytest.raises(DataError) as caught:
        import_weights(reference, config, tensors | dict.fromkeys(tied, table + 1))
    assert [problem.split(" is not equal")[0] for problem in caught.value.problems] == [
        f"tensor {copy}" for copy in tied
    ]


def test_an_untied_head_is_required():
    reference, config, tensors = random_tensors("t5-1.1")
    assert not np.array_equal(tensors["lm_head.weight"], tensors["shared.weight"])
    with pytest.raises(DataError, match=r"tensor lm_head\.weight is missing"):
        import_weights(
            reference, config, {name: tensor for name, tensor in tensors.items() if name != "lm_head.weight"}
        )


def test_final_logits_bias_is_a_row():
    reference, config, tensors = random_tensors("bart")
    bias = np.arange(99, dtype=np.float32)
    params, _ = import_weights(reference, config, tensors | {"final_logits_bias": bias[None]})
    np.testing.assert_array_equal(params["head"]["bias"], bias)
    with pytest.raises(DataError, match=r"tensor final_logits_bias has shape \(99,\), expected \(1, 99\)"):
        import_weights(reference, config, tensors | {"final_logits_bias": bias})
