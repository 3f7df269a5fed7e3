"""Configs of BLOOM and MPT: published files, and unsupported settings."""

import pytest

from zoo.errors import ConfigError
from zoo.interop import importer_of, resolve_like

BLOOM, MPT = "BloomForCausalLM", "MptForCausalLM"
BLOOM_560M = {
    "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0, "attention_softmax_in_fp32": True,
    "bias_dropout_fusion": True, "hidden_dropout": 0.0, "initializer_range": 0.02, "layer_norm_epsilon": 1e-5,
    "masked_softmax_fusion": True, "model_type": "bloom", "n_embed": 1024, "n_inner": None, "n_layer": 24, "num_attention_heads": 16,
    "offset_alibi": 100, "pretraining_tp": 1, "seq_length": 2048, "skip_bias_add": True, "skip_bias_add_qkv": False,
    "slow_but_exact": False, "unk_token_id": 0, "vocab_size": 250880,
}  # fmt: skip
MPT_7B = {
    "attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0, "attn_type": "multihead_attention",
                    "attn_uses_sequence_id": False, "clip_qkv": None, "prefix_lm": False, "qk_ln": False, "softmax_scale": None},
    "d_model": 4096, "emb_pdrop": 0, "embedding_fraction": 1.0, "expansion_ratio": 4, "init_config": {"name": "kaiming_normal_"},
    "init_device": "cpu", "learned_pos_emb": True, "logit_scale": None, "max_seq_len": 2048, "model_type": "mpt", "n_heads": 32,
    "n_layers": 32, "no_bias": True, "norm_type": "low_precision_layernorm", "resid_pdrop": 0, "tokenizer_name": "EleutherAI/gpt-neox-20b",
    "torch_dtype": "bfloat16", "use_cache": False, "verbose": 0, "vocab_size": 50432,
}  # fmt: skip


def model_of(class_name, hf):
    return resolve_like(class_name, hf, {"data.tokenizer.kind": "characters"}).model


def test_published_bloom_config():
    model = model_of(BLOOM, BLOOM_560M)
    assert (model.dim, model.num_layers, model.attention.num_heads, model.embedding.norm) == (1024, 24, 16, True)
    assert (model.position.kind, model.ffn.kind, model.ffn.gelu_approximation, model.tie_embeddings) == (
        "alibi",
        "gelu",
        "tanh",
        True,
    )
    assert (model.norm.bias, model.attention.bias, model.ffn.bias, model.ffn.hidden_dim) == (True, True, True, 4096)


def test_published_mpt_config():
    model = model_of(MPT, MPT_7B)
    assert (model.dim, model.num_layers, model.attention.num_heads, model.embedding.norm) == (4096, 32, 32, False)
    assert (model.position.kind, model.ffn.kind, model.ffn.gelu_approximation, model.tie_embeddings) == (
        "alibi",
        "gelu",
        "none",
        True,
    )
    assert (model.norm.bias, model.attention.bias, model.ffn.bias, model.ffn.hidden_dim) == (False, False, False, 16384)
    assert model.attention.scale == 128**-0.5


def test_dropout_is_mapped():
    bloom, mpt = (
        model_of(BLOOM, {"hidden_dropout": 0.1, "attention_dropout": 0.2}),
        model_of(MPT, {"resid_pdrop": 0.1, "emb_pdrop": 0.1, "attn_config": {"attn_pdrop": 0.2}}),
    )
    for model in (bloom, mpt):
        assert (model.dropout, model.attention.dropout) == (0.1, 0.2)


def test_attention_scale_is_mapped():
    assert model_of(MPT, {"attn_config": {"softmax_scale": 0.3}}).attention.scale == 0.3


@pytest.mark.parametrize(("class_name", "settings", "message"), [
    (BLOOM, {"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm=True: residual connections"),
    (BLOOM, {"n_inner": 99}, "n_inner=99: this class has four times hidden_size"),
    (BLOOM, {"slow_but_exact": True, "pretraining_tp": 2}, "slow_but_exact=True: with pretraining_tp=2 this class leaves out biases"),
    (MPT, {"expansion_ratio": 2}, "expansion_ratio=2: this class has four times d_model"),
    (MPT, {"no_bias": False}, "no_bias=False: this class has no biases"),
    (MPT, {"logit_scale": "inv_sqrt_d_model"}, "logit_scale='inv_sqrt_d_model': this class does not scale the logits"),
    (MPT, {"embedding_fraction": 0.1}, "embedding_fraction=0.1: this class does not scale"),
    (MPT, {"norm_type": "rmsnorm"}, "norm_type='rmsnorm': this class has LayerNorm"),
    (MPT, {"resid_pdrop": 0.1}, "emb_pdrop=0.0, resid_pdrop=0.1: must be equal"),
    (MPT, {"attn_config": {"attn_type": "multiquery_attention"}}, "attn_config.attn_type='multiquery_attention': this class has as many"),
    (MPT, {"attn_config": {"clip_qkv": 6}}, "attn_config.clip_qkv=6: clipping"),
    (MPT, {"attn_config": {"qk_ln": True}}, "attn_config.qk_ln=True: this class does not normalise"),
    (MPT, {"attn_config": {"prefix_lm": True}}, "attn_config.prefix_lm=True: this class is causal"),
    (MPT, {"attn_config": {"attn_uses_sequence_id": True}}, "attn_config.attn_uses_sequence_id=True: this class does not read"),
    (MPT, {"attn_config": {"alibi": False}}, "attn_config.alibi=False: this class always has ALiBi"),
    (MPT, {"attn_config": {"alibi_bias_max": 16}}, "attn_config.alibi_bias_max=16: this class always has slopes down to 2^-8"),
    (MPT, {"attn_config": {"rope": True}}, "attn_config.rope=True: not known to this importer"),
])  # fmt: skip
def test_unsupported_settings_are_rejected_by_name(class_name, settings, message):
    with pytest.raises(ConfigError) as caught:
        model_of(class_name, settings)
    assert [problem for problem in caught.value.problems if problem.startswith(message)], caught.value.problems


def test_bloom_computation_settings_are_ignored_individually():
    assert importer_of(BLOOM).read_config({"slow_but_exact": True}) == importer_of(BLOOM).read_config(
        {"pretraining_tp": 4}
    )


@pytest.mark.parametrize(("class_name", "one", "other"), [
    (BLOOM, {"n_embed": 96, "num_attention_heads": 6, "num_hidden_layers": 3}, {"hidden_size": 96, "n_head": 6, "n_layer": 3}),
    (MPT, {"hidden_size": 96, "num_attention_heads": 6, "num_hidden_layers": 3}, {"d_model": 96, "n_heads": 6, "n_layers": 3}),
])  # fmt: skip
def test_alternative_setting_names(class_name, one, other):
    assert (
        importer_of(class_name).read_config(one)
        == importer_of(class_name).read_config(other)
        != importer_of(class_name).read_config({})
    )
    # If both names are given, the class uses the alternative one.
    assert importer_of(class_name).read_config(other | one | {"num_hidden_layers": 7})["model.num_layers"] == 7
