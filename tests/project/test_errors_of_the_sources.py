"""Checks the statements of docs/errors_of_the_sources.md."""

import csv
import math
import re
from collections import defaultdict
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from publication.claims_table import read_claims
from tests import reference
from tests.support.building import as_float64, call, close, counting, random_values, tiny, with_values
from zoo import config as configs
from zoo.data.rows.spans import SpanCorruption
from zoo.data.tokenizers.byte_tokenizers import ByT5Tokenizer
from zoo.layers.attention import make_attention
from zoo.layers.feedforward import make_feed_forward
from zoo.layers.norm import make_norm
from zoo.layers.placement import make_block
from zoo.layers.position import make_attention_position, sinusoid
from zoo.layers.position.relative import bucket
from zoo.layers.position.rope import plain_frequencies
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten
from zoo.training.freezing import trainable_mask
from zoo.variants import VARIANTS
from zoo.variants.papers import cited

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "errors_of_the_sources.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^\*\*(?:.+\n)+", PAGE, re.MULTILINE)
DOCUMENTS = ("walk-through of LLaMA", "course's slides", "post on rotary embeddings", "lecture", "one of the five")


def column(results, name, by, **wanted):
    """{value of the column `by`: mean of a column} of a table of docs/results."""
    found = defaultdict(list)
    with open(DOCS / "results" / results, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row[name] and all(row[key] == value for key, value in wanted.items()):
                found[row[by]].append(float(row[name]))
    return {key: sum(values) / len(values) for key, values in found.items()}


def entry(beginning):
    """The text of the entry that begins with these words, on one line."""
    (found,) = [" ".join(text.split()) for text in ENTRIES if text.startswith(f"**{beginning}")]
    return found


@pytest.mark.parametrize("text", ENTRIES, ids=lambda text: text[2:40])
def test_every_entry_names_its_document_and_what_shows_it(text):
    text = " ".join(text.split())
    said, shown = re.search(r" \*Said in\*: (.+?)\. \*Shown by\*: (.+)$", text).groups()
    assert any(document in said for document in DOCUMENTS)
    folders = {"test_p": "claims/test_exact.py"}
    tests = Path(__file__).parents[1]
    for name in re.findall(r"`(test_\w+)`", shown):
        file = tests / folders.get(name[:6] if re.match(r"test_p\d", name) else "", "project/" + Path(__file__).name)
        assert f"\ndef {name}(" in file.read_text(encoding="utf-8"), name
    paths = [*re.findall(r"`(tests/\S+)`", shown), *(f"docs/{path}" for path in re.findall(r"\]\(([^)#]+)", shown))]
    assert all((tests.parent / path).is_file() for path in paths), paths
    assert "`test" in shown


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


def printed_table(length, dims):
    """cos(0.01 m j) for positions m and dimensions j, which the printed class adds."""
    return np.cos(0.01 * np.outer(np.arange(length), np.arange(dims)))


def test_printed_class_adds_absolute_positions():
    q, k = np.random.default_rng(5).normal(size=(2, 16))
    matrix = np.cos(0.01 * np.outer(np.arange(16), np.arange(16)))
    encoded = [(x + printed_table(300, 16)) @ matrix for x in (q, k)]
    rope = make_attention_position(tiny({"model.position.kind": "rope", "model.attention.head_dim": 16}).model)
    places = np.arange(300)[None]
    rotated = rope.rotate(*(np.broadcast_to(np.float32(x), (1, 300, 1, 16)) for x in (q, k)), places, places)
    # The score of a query with the key 10 tokens before it, at two places.
    score = [encoded[0][m] @ encoded[1][m - 10] for m in (10, 250)]
    of_rope = [np.asarray(rotated[0])[0, m, 0] @ np.asarray(rotated[1])[0, m - 10, 0] for m in (10, 250)]
    assert abs(score[0] - score[1]) > 1
    assert of_rope[0] == pytest.approx(of_rope[1], abs=1e-4)


@pytest.mark.parity
def test_printed_class_cannot_be_constructed():
    import torch

    with pytest.raises(TypeError, match="must be Tensor, not float"):
        torch.cos(1 * 2 * 0.01)


def test_rotary_exponent_counts_pairs_twice():
    dim = 128
    # In radians per token; 1 / frequency is the wavelength divided by 2 pi.
    assert 1 / plain_frequencies(10_000.0, dim)[-1] == pytest.approx(10_000 ** (1 - 2 / dim))
    printed = np.arange(1, dim // 2 + 1) / (2 * dim)
    assert printed[-1] == 1 / 4
    assert [round(base ** printed[-1]) for base in (10_000, 100_000)] == [10, 18]


def test_the_page_of_rope_and_its_claim_say_that_a_bound_decays():
    (rope,) = [variant for variant in VARIANTS if variant.name == "rope"]
    (told,) = [" ".join(text.split()) for text in rope.details if "distance" in text]
    assert "upper bound on the score (Su et al. 2021, section 3.4.3), not the score" in told
    assert f"at every distance: {128**0.5:.1f} for K = 128" in told
    (claim,) = [claim for claim in read_claims(DOCS / "results").claims if claim["id"] == "P6"]
    assert claim["note"].startswith("of the bound, not of the scores")
    assert "sqrt(K) in root mean square at every distance" in claim["limits"]
    assert f"**exact**: {claim['note']}" in (DOCS / "results" / "README.md").read_text(encoding="utf-8")


def test_losses_beyond_the_trained_length_are_those_of_the_page():
    runs = "positions_extrapolation/runs.csv"
    near, far = (column(runs, name, "arm") for name in ("eval/loss", "eval/loss@2048"))
    text = entry('"Sinusoids extend')
    for kind in ("sinusoidal", "rope", "relative_bias", "alibi"):
        losses = near[f"positions={kind}"], far[f"positions={kind}"]
        assert "{:.3f} and {:.3f}".format(*losses) in text, kind
        assert (losses[1] - losses[0] < 0.1) == (kind == "alibi")


def test_near_vectors_are_alike_as_the_page_says():
    runs = "position_vectors/runs.csv"
    names = ("measured/position_locality", "measured/position_locality@initial")
    trained, initial = (column(runs, name, "arm")["model=decoder"] for name in names)
    assert f"by {trained:.2f} in a decoder" in entry('"Absolute positions')
    assert abs(initial) < 0.005


def test_a_step_with_rope_takes_no_less_time():
    table = "measured/variant_time/measurements.csv"
    low, ratio, high = (
        column(table, name, "variant", part="position") for name in ("ratio_low", "ratio", "ratio_high")
    )
    assert f"{ratio['rope']:.2f} with RoPE and {ratio['sinusoidal']:.2f} with sinusoids" in entry('"RoPE: faster')
    assert ratio["rope"] >= ratio["sinusoidal"]
    assert low["rope"] < high["sinusoidal"]


def test_t5_has_a_bias_for_each_bucket():
    position = configs.load("t5:11b").model.position
    behind = -jnp.arange(100_000)
    decoder, encoder = (
        np.asarray(bucket(behind, position.buckets, position.max_distance, both)) for both in (False, True)
    )
    assert list(decoder[:16]) == list(range(16))
    assert np.flatnonzero(decoder == decoder[-1])[0] == 113
    assert (len(set(decoder.tolist())), len(set(encoder.tolist()))) == (32, 16)


def test_large_models_have_relative_positions():
    for name, kind, dim, layers in (
        ("t5:11b", "relative_bias", 1024, 24), ("bloom:176b", "alibi", 14336, 70), ("mpt:7b", "alibi", 4096, 32),
    ):  # fmt: skip
        model = configs.load(name).model
        assert (model.position.kind, model.dim, model.num_layers) == (kind, dim, layers)


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


def test_add_and_norm_is_a_sum():
    config = tiny({"model.norm.placement": "post", "model.position.kind": "none"}).model
    block = make_block(config)
    values = random_values(block, 3)
    x = np.random.default_rng(4).normal(size=(2, 6, 16)).astype(np.float32)

    def halves(x):
        held, context = with_values(block, values), counting(6, True)
        after = held.attention_norm(x + held.attention(x, context), context)
        return held(x, context), held.ffn_norm(after + held.ffn(after, context), context)

    found, expected = call(halves, x)
    assert found.shape == x.shape
    close(found, expected)


def test_the_activation_is_what_relu_returns():
    config = tiny({"model.ffn.kind": "relu"}).model
    module = make_feed_forward(config)
    values = random_values(module, 6)
    x = np.random.default_rng(7).normal(size=(1, 5, 16)).astype(np.float32)

    def both(x):
        held = with_values(module, values)
        return held.projected("up", x, None), held.hidden(x, None)

    before, activations = call(both, x)
    assert (before < 0).any()
    assert (activations >= 0).all()
    np.testing.assert_array_equal(activations, np.maximum(before, 0))


def test_a_norm_keeps_the_shape_of_a_distribution():
    norm = make_norm(tiny({"model.dim": 4096, "model.norm.bias": False}).model)
    values = {"scale": np.ones(4096, np.float32)}
    x = np.random.default_rng(8).exponential(3.0, (50, 4096)).astype(np.float32)
    y = call(lambda x: with_values(norm, values)(x, None), x)
    np.testing.assert_allclose([y.mean(), y.var()], [0, 1], atol=1e-3)
    assert scipy.stats.skew(y, axis=None) == pytest.approx(2, abs=0.1)
    close(scipy.stats.skew(y, axis=1), scipy.stats.skew(x, axis=1), 1e-3)


def test_rmsnorm_saves_few_parameters_and_a_part_of_the_time():
    config = configs.resolve(configs.load("llama:7b"), vocab_size=32_000)
    leaves = flatten(split(make_model(config))[1], "/")
    scales = sum(math.prod(leaf.shape) for path, leaf in leaves.items() if path.endswith("norm/scale"))
    everything = sum(math.prod(leaf.shape) for leaf in leaves.values())
    # LayerNorm has as many biases as scales.
    text = entry('"RMSNorm has fewer')
    assert f"{scales:,} biases" in text
    assert scales / everything < 1e-4
    alone = column("measured/norm_time/measurements.csv", "ratio", "width", what="norm alone", norm="RMSNorm")
    assert f"{min(alone.values()):.2f} to {max(alone.values()):.2f} of LayerNorm's time" in text


def test_fine_tuning_trains_everything():
    task = {"objective.kind": "classification", "model.head.classes": 3, "model.architecture": "encoder"}
    whole, head = (tiny(task | more) for more in ({}, {"training.trained_layers": 0}))
    assert configs.load("finetune/classification:tiny").training.trained_layers == configs.AUTO
    assert trainable_mask(whole, make_model(whole)) is None
    assert not np.all(flatten(trainable_mask(head, make_model(head)), "/")["embedding"])


def test_t5_targets_end_with_the_end_token():
    end, first = 1, 100
    rows = np.random.default_rng(9).integers(2, first, (20, 40))
    spans = SpanCorruption(density=0.15, mean=3.0, vocab_size=first, sentinels=10, end_id=end)
    made = spans.training_batch({"tokens": rows}, np.arange(20), np.zeros(20, int), seed=0)
    for source, target in zip(made["source"], made["targets"], strict=True):
        source, target = source[source >= 0], target[target >= 0]
        assert (source[-1], target[-1]) == (end, end)
        # Both sides have the same sentinels; in the source the end follows the last one.
        assert list(target[target >= first]) == list(source[source >= first])
        assert source[-2] >= first > target[-2]


def test_byt5_has_more_ids_than_bytes():
    ids, bytes_ = ByT5Tokenizer.known_vocab_size(None), ByT5Tokenizer().encode("".join(map(chr, range(128))))
    assert (ids, min(bytes_)) == (256 + 3, 3)
    config = configs.load("byt5:small")
    assert ids + config.objective.sentinels == 359
    assert config.model.vocab_size == 384


def test_llama_2_doubles_the_tokens_of_the_small_sizes_alone():
    def trillions(size):
        config = configs.load(f"llama:{size}")
        return round(config.training.steps * config.data.batch_size * config.data.sequence_length / 1e12, 1)

    pairs = [(trillions(first), trillions(second)) for first, second in
             (("7b", "v2-7b"), ("13b", "v2-13b"), ("33b", "v2-34b"), ("65b", "v2-70b"))]  # fmt: skip
    assert [(f"{one:.1f}", round(other)) for one, other in pairs] == [("1.0", 2)] * 2 + [("1.4", 2)] * 2


def test_batch_normalisation_is_of_2015():
    (paper,) = cited("Ioffe & Szegedy 2015")
    # The identifier of an arXiv paper begins with the year and the month.
    assert paper.link.startswith("arXiv:1502.")
    assert "(arXiv 1502.03167)" in entry("Batch normalisation dated 2014")


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
