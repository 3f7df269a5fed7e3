"""Configs and tensors of the BERT family: published files, differing windows, and unsupported
settings.
"""

import jax
import numpy as np
import pytest

from zoo.errors import ConfigError, DataError
from zoo.interop import importer_of, resolve_like
from zoo.interop.model_weights import export_weights, import_weights
from zoo.interop.weights.tensor_names import RenamedTensors
from zoo.models.architectures import make_model
from zoo.models.functional import split

TINY = {"vocab_size": 29, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 3, "num_attention_heads": 2,
        "max_position_embeddings": 11}  # fmt: skip
DISTILBERT = {"vocab_size": 29, "dim": 8, "hidden_dim": 12, "n_layers": 3, "n_heads": 2, "max_position_embeddings": 11}
LONGFORMER = TINY | {"attention_window": 4}
# From google-bert/bert-base-uncased, FacebookAI/roberta-base, distilbert/distilbert-base-uncased,
# junnyu/roformer_chinese_base and allenai/longformer-base-4096: class name, settings in the file,
# and fields that the import must set.
PUBLISHED = {
    "BertForMaskedLM": (
        {"architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False, "hidden_act": "gelu",
         "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
         "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0,
         "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0", "type_vocab_size": 2, "use_cache": True,
         "vocab_size": 30522},
        {"model.position.max_length": 512, "model.position.offset": 0, "model.norm.epsilon": 1e-12, "model.embedding.segments": 2,
         "model.vocab_size": 30522, "model.dropout": 0.1, "model.attention.dropout": 0.1}),
    "RobertaForMaskedLM": (
        {"architectures": ["RobertaForMaskedLM"], "bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-5,
         "max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": 50265},
        {"model.position.max_length": 512, "model.position.offset": 2, "model.norm.epsilon": 1e-5, "model.embedding.segments": 1}),
    "DistilBertForMaskedLM": (
        {"activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "qa_dropout": 0.1, "seq_classif_dropout": 0.2,
         "sinusoidal_pos_embds": False, "tie_weights_": True, "vocab_size": 30522},
        {"model.num_layers": 6, "model.norm.epsilon": 1e-12, "model.embedding.segments": 0, "model.dropout": 0.1,
         "model.attention.dropout": 0.1}),
    "RoFormerForMaskedLM": (
        {"architectures": ["RoFormerForMaskedLM"], "embedding_size": 768, "max_position_embeddings": 1536, "rotary_value": False,
         "vocab_size": 50000},
        {"model.position.kind": "rope", "model.position.layout": "interleaved", "data.sequence_length": 1536}),
    "LongformerForMaskedLM": (
        {"attention_mode": "longformer", "attention_window": [512] * 12, "gradient_checkpointing": False, "ignore_attention_mask": False,
         "layer_norm_eps": 1e-5, "max_position_embeddings": 4098, "pad_token_id": 1, "sep_token_id": 2, "type_vocab_size": 1,
         "vocab_size": 50265},
        {"model.attention.window": 513, "model.position.max_length": 4096, "model.layers.pattern": (), "model.attention.global_tokens": 1}),
}  # fmt: skip


def resolved(class_name, hf, overrides=None):
    return resolve_like(class_name, hf, {"data.tokenizer.kind": "characters"} | (overrides or {}))


def random_checkpoint(class_name, hf):
    """Returns a config, random parameters, and their tensors."""
    config, generator = resolved(class_name, hf), np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: generator.standard_normal(leaf.shape).astype(np.float32), split(make_model(config))[1]
    )
    return config, params, export_weights(class_name, config, params, {})


@pytest.mark.parametrize("class_name", PUBLISHED)
def test_published_settings_are_read(class_name):
    hf, expected = PUBLISHED[class_name]
    config = resolved(class_name, hf)
    for path, value in expected.items():
        node = config
        for part in path.split("."):
            node = node[part]
        assert node == value, path


@pytest.mark.parametrize(("class_name", "setting", "message"), [
    ("BertForMaskedLM", {"position_embedding_type": "relative_key_query"}, "'relative_key_query': expected absolute or relative_key"),
    ("BertForMaskedLM", {"hidden_act": "mish"}, "hidden_act='mish': expected one of relu, gelu"),
    ("BertForMaskedLM", {"is_decoder": True}, "is_decoder=True: expected False"),
    ("BertForPreTraining", {"add_cross_attention": True}, "add_cross_attention=True: expected False"),
    ("BertForPreTraining", {"pruned_heads": {"1": [0]}}, "pruned_heads="),
    ("BertForMaskedLM", {"type_vocab_size": 0}, "type_vocab_size=0: .* at least 1"),
    ("BertForMaskedLM", {"embedding_size": 4}, "embedding_size=4: not known"),
    ("RobertaForMaskedLM", {"hidden_act": "relu"}, "hidden_act='relu': expected one of gelu, gelu_python"),
    ("RobertaForMaskedLM", {"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key': expected absolute"),
    ("RobertaForMaskedLM", {"pad_token_id": None}, "pad_token_id=None: expected the id of a token"),
    ("DistilBertForMaskedLM", {"activation": "mish"}, "activation='mish': expected one of relu, gelu"),
    ("DistilBertForMaskedLM", {"layer_norm_eps": 1e-5}, "layer_norm_eps=1e-05: not known"),
    ("RoFormerForMaskedLM", {"rotary_value": True}, "rotary_value=True: values are not rotated"),
    ("RoFormerForMaskedLM", {"embedding_size": 128}, "embedding_size=128: expected hidden_size"),
    ("RoFormerForMaskedLM", {"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key': not known"),
    ("LongformerForMaskedLM", {"attention_window": [4] * 11}, "attention_window=.*one for each of the 12 layers"),
    ("LongformerForMaskedLM", {"attention_window": [4] * 11 + [5]}, "attention_window=.*even numbers"),
    ("LongformerForMaskedLM", {"attention_window": 0}, "attention_window=0: expected even numbers above 0"),
    ("LongformerForMaskedLM", {"attention_window": [], "num_hidden_layers": 2}, "attention_window=.*one for each of the 2 layers"),
    ("LongformerForMaskedLM", {"attention_mode": "n2"}, "attention_mode='n2': expected longformer"),
    ("LongformerForMaskedLM", {"ignore_attention_mask": True}, "ignore_attention_mask=True"),
    ("LongformerForMaskedLM", {"attention_dilation": [2] * 12}, "attention_dilation=.*not known"),
])  # fmt: skip
def test_unsupported_settings_are_rejected_by_name(class_name, setting, message):
    with pytest.raises(ConfigError, match=message):
        importer_of(class_name).read_config(setting)


def test_differing_windows_become_layer_kinds():
    config = resolved("LongformerForMaskedLM", LONGFORMER | {"num_hidden_layers": 4, "attention_window": [2, 6, 2, 6]})
    assert config.model.layers.pattern == ("window3", "window7")
    assert config.model.layers.kinds.window7.attention.window == 7
    alike = resolved("LongformerForMaskedLM", LONGFORMER | {"attention_window": [6] * 3})
    assert (alike.model.layers.pattern, alike.model.attention.window) == ((), 7)


@pytest.mark.parametrize("class_name", ["BertForMaskedLM", "BertForPreTraining"])
def test_gamma_and_beta_of_old_files_are_read(class_name):
    config, params, tensors = random_checkpoint(class_name, TINY)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    assert "bert.encoder.layer.2.output.LayerNorm.gamma" in old
    jax.tree.map(np.testing.assert_array_equal, import_weights(class_name, config, old)[0], params)
    norm = "bert.embeddings.LayerNorm"
    with pytest.raises(DataError, match=f"tensors {norm}.weight and {norm}.gamma are both {norm}.weight"):
        import_weights(class_name, config, tensors | {f"{norm}.gamma": tensors[f"{norm}.weight"]})


def test_renamed_tensors_are_read_one_at_a_time():
    class File(dict):
        reads = 0

        def __getitem__(self, name):
            self.reads += 1
            return super().__getitem__(name)

    file = File({"a.gamma": 1, "b.weight": 2, "gamma": 3})
    renamed = RenamedTensors(file, {".gamma": ".weight"})
    assert (list(renamed), len(renamed), "a.gamma" in renamed) == (["a.weight", "b.weight", "gamma"], 3, False)
    assert file.reads == 0
    assert (renamed["a.weight"], renamed["gamma"], file.reads) == (1, 3, 2)


@pytest.mark.parametrize(("class_name", "hf", "ignored", "tied_copies"), [
    # The checkpoints published under the first class were saved by the second.
    ("BertForMaskedLM", TINY, ("bert.embeddings.position_ids", "bert.pooler.dense.weight", "cls.seq_relationship.bias"),
     {"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.bias": "cls.predictions.bias"}),
    ("BertForPreTraining", TINY, ("bert.embeddings.position_ids",), {"cls.predictions.decoder.bias": "cls.predictions.bias"}),
    ("BertForMaskedLM", TINY | {"position_embedding_type": "relative_key"}, ("bert.embeddings.position_embeddings.weight",), {}),
    ("RobertaForMaskedLM", TINY, ("roberta.embeddings.position_ids", "roberta.pooler.dense.bias"),
     {"lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"}),
    ("DistilBertForMaskedLM", DISTILBERT, (), {"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"}),
    ("DistilBertForMaskedLM", DISTILBERT | {"sinusoidal_pos_embds": True}, ("distilbert.embeddings.position_embeddings.weight",), {}),
    ("RoFormerForMaskedLM", TINY, ("roformer.encoder.embed_positions.weight",), {"cls.predictions.decoder.bias": "cls.predictions.bias"}),
    ("LongformerForMaskedLM", LONGFORMER, ("longformer.embeddings.position_ids", "longformer.pooler.dense.weight"),
     {"lm_head.decoder.bias": "lm_head.bias"}),
])  # fmt: skip
def test_redundant_tensors_are_accepted_if_consistent(class_name, hf, ignored, tied_copies):
    config, params, tensors = random_checkpoint(class_name, hf)
    extra = {name: np.zeros(3, np.float32) for name in ignored} | {
        name: tensors[of] for name, of in tied_copies.items()
    }
    assert not set(extra) & set(tensors)
    jax.tree.map(np.testing.assert_array_equal, import_weights(class_name, config, tensors | extra)[0], params)
    with pytest.raises(DataError, match="tensor classifier has no place in the model"):
        import_weights(class_name, config, tensors | {"classifier": np.zeros(3, np.float32)})
    for name, of in tied_copies.items():
        with pytest.raises(DataError, match=f"tensor {name} is not equal to {of}"):
            import_weights(class_name, config, tensors | {name: tensors[of] + 1})


def test_global_projections_are_skipped_without_global_tokens():
    tensors = random_checkpoint("LongformerForMaskedLM", LONGFORMER)[2]
    name = "longformer.encoder.layer.1.attention.self.query_global.weight"
    local = resolved(
        "LongformerForMaskedLM",
        LONGFORMER,
        {"model.attention.global_tokens": 0, "model.attention.global_projections": False},
    )
    assert name in tensors
    assert (
        "global_query" not in import_weights("LongformerForMaskedLM", local, tensors)[0]["stack"]["layers"]["attention"]
    )
    del tensors[name]
    with pytest.raises(DataError, match=f"tensor {name} is missing"):
        import_weights("LongformerForMaskedLM", resolved("LongformerForMaskedLM", LONGFORMER), tensors)
