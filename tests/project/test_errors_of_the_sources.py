"""Checks those statements of docs/errors_of_the_sources.md that a test can verify."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tests import reference
from tests.support.building import as_float64, call, close, counting, random_values, tiny, with_values
from zoo import config as configs
from zoo.layers.attention import make_attention
from zoo.layers.position import make_attention_position, sinusoid
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten


def preset(spec):
    return configs.resolve(configs.load(spec), vocab_size=30522).model


def test_printed_cosine_matrix_is_not_a_rotation():
    positions, dims = np.arange(8), 16
    printed = np.cos(np.outer(np.arange(dims), np.arange(dims)) * 0.01)
    # The matrix is the same for every position, so scores cannot depend on positions; it does not
    # preserve norms, and its rank is far below its dimension.
    x = np.random.default_rng(0).normal(size=(1, 8, 1, dims)).astype(np.float32)
    assert not np.allclose(printed @ printed.T, np.eye(dims), atol=0.5)
    assert np.linalg.matrix_rank(printed, tol=1e-2) < dims / 2
    rope = make_attention_position(tiny({"model.position.kind": "rope", "model.attention.head_dim": dims}).model)
    rotated, _ = (np.asarray(side) for side in rope.rotate(x, x, positions[None], positions[None]))
    np.testing.assert_allclose(np.linalg.norm(rotated, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-5)
    assert np.abs(rotated[0, 1:] - x[0, 1:]).max() > 0.1
    printed_norms = np.linalg.norm(x[0, :, 0] @ printed, axis=-1)
    assert np.abs(printed_norms / np.linalg.norm(x[0, :, 0], axis=-1) - 1).max() > 0.3


def test_wavelength_exponent_is_2i_over_d():
    dim = 512
    slowest = np.asarray(sinusoid(np.array([1.0]), dim))[0, dim - 2]
    assert slowest == pytest.approx(np.sin(10000 ** -((dim - 2) / dim)), rel=1e-4)
    # With j/2d, j counting all dimensions, the longest wavelength is 2 pi 100, not nearly 2 pi 10,000.
    assert 10000 ** ((dim - 1) / (2 * dim)) < 100
    assert slowest < 0.02 * np.sin(1 / 100)


def test_original_transformer_has_6_layers_per_side():
    for size in ("base", "big"):
        config = configs.resolve(configs.load(f"transformer:{size}"), vocab_size=37000)
        assert (config.model.architecture, config.model.num_layers) == ("encoder_decoder", 6)
        layers = {path.split("/")[0]: leaf.shape[0] for path, leaf in flatten(split(make_model(config))[1], "/").items()
                  if "/layers/" in path}  # fmt: skip
        assert layers == {"encoder": 6, "decoder": 6}


def test_scores_are_divided_by_the_square_root_of_the_head_width():
    config = tiny({"model.position.kind": "none", "model.dim": 16, "model.attention.num_heads": 4}).model
    values = random_values(make_attention(config), 1)
    x = np.random.default_rng(2).normal(size=(2, 6, 16)).astype(np.float32)
    found = call(lambda x: with_values(make_attention(config), values)(x, counting(6, True)), x)
    rows = reference.Rows(np.arange(6)[None].repeat(2, 0), None, True)
    expected = reference.attention_layer(config, as_float64(values), x, rows)
    close(found, expected, 2e-5)
    # Queries divided by sqrt(D / K) more give what the slide's sqrt(d_model) would.
    narrower = as_float64(values)
    narrower["query"] = {name: part / 2 for name, part in narrower["query"].items()}
    assert np.abs(reference.attention_layer(config, narrower, x, rows) - expected).max() > 1e-3


def test_llama_is_a_decoder_with_rotary_positions_in_each_head():
    model = preset("llama:7b")
    assert (model.dim, model.attention.head_dim, model.architecture) == (4096, 128, "decoder")
    assert make_attention_position(model).frequencies(np.arange(4)[None]).shape == (64,)


def test_bert_has_learned_positions():
    config = configs.resolve(configs.load("bert:base"), vocab_size=30522)
    params = {path: leaf.shape for path, leaf in flatten(split(make_model(config))[1], "/").items()}
    assert (512, 768) in {shape for path, shape in params.items() if "position" in path}


def test_common_wordpiece_trainer_merges_by_frequency():
    words = "ab " * 10 + "ac " * 10 + "db " * 10 + "xy " * 3
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    alphabet = {"a", "b", "c", "d", "x", "y", "##b", "##c", "##y"}
    size = len(alphabet) + 2
    tokenizer.train_from_iterator(
        [words], trainers.WordPieceTrainer(vocab_size=size, special_tokens=["[UNK]"], show_progress=False)
    )
    (merged,) = set(tokenizer.get_vocab()) - alphabet - {"[UNK]"}
    # By likelihood it would be "xy": 3 / (3 * 3) against 10 / (20 * 20).
    assert merged in ("ab", "ac", "db")
