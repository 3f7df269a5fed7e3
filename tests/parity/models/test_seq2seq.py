"""Cases beyond the table of systems: tied heads of all T5 classes, every relative bucket and ALiBi
slope, settings that a class ignores.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers import BloomConfig, BloomForCausalLM, MptConfig, MptForCausalLM
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.mt5.modeling_mt5 import MT5Attention
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.umt5.modeling_umt5 import UMT5Attention

from tests.parity.models.test_systems import compare
from tests.parity.references import fill
from tests.parity.systems import System
from tests.parity.systems.encoder_decoders import LONG, T5_1_1
from zoo.layers.position import alibi_slopes
from zoo.layers.position.relative import bucket

pytestmark = pytest.mark.parity
TIED = (
    System("t5-gelu", "", "T5ForConditionalGeneration", T5_1_1 | {"feed_forward_proj": "gelu", "dense_act_fn": "gelu_new"}, length=LONG),
    System("mt5-tied", "", "MT5ForConditionalGeneration",
           T5_1_1 | {"tie_word_embeddings": True, "feed_forward_proj": "gated-silu"}, length=LONG),
    System("umt5-tied", "", "UMT5ForConditionalGeneration",
           T5_1_1 | {"tie_word_embeddings": True, "feed_forward_proj": "gated-relu", "num_decoder_layers": 3}, length=LONG),
)  # fmt: skip


@pytest.mark.parametrize("system", TIED, ids=lambda system: system.name)
def test_tied_heads_and_other_activations(system):
    output, gradient, _ = compare(system)
    assert output <= 1e-5
    assert gradient <= 1e-4


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    ("buckets", "max_distance"), [(32, 128), (32, 512), (64, 256), (8, 10), (8, 16), (12, 50), (4, 8), (32, 1000)]
)
def test_relative_buckets_match_all_t5_classes(buckets, max_distance, bidirectional):
    distances = np.arange(-3 * max_distance, 3 * max_distance + 1)
    ours = np.asarray(jax.jit(lambda x: bucket(x, buckets, max_distance, bidirectional))(jnp.asarray(distances)))
    for attention in (T5Attention, MT5Attention):
        theirs = attention._relative_position_bucket(torch.tensor(distances), bidirectional, buckets, max_distance)
        np.testing.assert_array_equal(ours, theirs.numpy())
    umt5 = UMT5Attention.__new__(UMT5Attention)
    torch.nn.Module.__init__(umt5)
    umt5.relative_attention_num_buckets, umt5.relative_attention_max_distance = buckets, max_distance
    umt5.is_decoder = not bidirectional
    np.testing.assert_array_equal(ours, umt5._relative_position_bucket(torch.tensor(distances)).numpy())


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 25, 32, 48, 56, 112])
def test_alibi_slopes_match_bloom_and_mpt(heads):
    """Both classes add slope * position, which differs from -slope * distance only by a constant per
    row.
    """
    bloom = build_alibi_tensor(torch.ones(1, 4), heads, torch.float32).reshape(heads, 4).numpy()
    mpt = build_mpt_alibi_tensor(heads, 4)[:, 0].numpy()
    np.testing.assert_allclose(bloom[:, 1] - bloom[:, 0], alibi_slopes(heads), rtol=1e-6)
    np.testing.assert_allclose(mpt[:, 1] - mpt[:, 0], alibi_slopes(heads), rtol=1e-6)


def logits_of(kind, config):
    config._attn_implementation = "eager"
    module = kind(config).eval()
    fill(module)
    return module(torch.arange(4, 12)[None]).logits.detach().numpy()


@pytest.mark.parametrize("ignored", [
    {"attn_config": {"alibi_bias_max": 2}}, {"attn_config": {"alibi": False}}, {"attn_config": {"qk_ln": True}}, {"no_bias": False},
    {"attn_config": {"attn_type": "multiquery_attention"}}, {"logit_scale": 0.5}, {"expansion_ratio": 2}, {"norm_type": "rmsnorm"},
    {"learned_pos_emb": False},
], ids=str)  # fmt: skip
def test_mpt_ignores_these_settings(ignored):
    """This is why the importer rejects all of these settings but the last: they do not change the
    output of the class.
    """
    size = {"vocab_size": 99, "d_model": 32, "n_heads": 4, "n_layers": 1, "max_seq_len": 24}
    np.testing.assert_array_equal(
        logits_of(MptForCausalLM, MptConfig(**size | ignored)), logits_of(MptForCausalLM, MptConfig(**size))
    )


def test_slow_but_exact_bloom_computes_another_function():
    size = {"vocab_size": 99, "hidden_size": 32, "n_head": 4, "n_layer": 1}
    plain, slow = (
        logits_of(BloomForCausalLM, BloomConfig(**size, slow_but_exact=slow, pretraining_tp=2))
        for slow in (False, True)
    )
    assert np.abs(plain - slow).max() > 1e-2
