"""Figures of the norms' axes, of the online softmax, and of the embeddings that are summed."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.draw.test_draw import draw_files, untrained_run
from tests.support.building import random_values
from tests.support.small_runs import OBJECTIVES, small
from zoo.cli.main import main
from zoo.config import resolve
from zoo.draw import norm_axes, online_softmax
from zoo.draw.diagrams import embedding_rows
from zoo.layers.attention.kernels.products import einsum_attention
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.models.language_model import embed

TINY = {"model__dim": 16, "model__num_layers": 2, "model__attention__num_heads": 4, "data__sequence_length": 32}


def resolved(kind="masked", **changes):
    return resolve(small(**OBJECTIVES[kind], **TINY, **changes))


@pytest.mark.parametrize(("kind", "where", "statistic"), [
    ("layernorm", np.s_[0, 1, :], "mean and variance"),
    ("batchnorm", np.s_[:, :, 4], "mean and variance"),
    ("rmsnorm", np.s_[0, 1, :], "root mean square"),
    ("centering", np.s_[0, 1, :], "mean"),
    ("none", np.s_[0, 1, 4], "none"),
])  # fmt: skip
def test_values_that_share_a_statistic_are_found_from_the_layer(kind, where, statistic):
    expected = np.zeros(norm_axes.BLOCK, bool)
    expected[where] = True
    found = norm_axes.find_sharing(norm_axes.normaliser(kind, norm_axes.BLOCK[2]))
    np.testing.assert_array_equal(found.cells, expected)
    assert found.statistic == statistic


def test_a_norm_that_averages_other_values_is_drawn_as_such():
    found = norm_axes.find_sharing(lambda x: x / np.abs(x).max(axis=1, keepdims=True), (2, 3, 2), (1, 0, 1))
    assert found.statistic == "root mean square"
    assert np.argwhere(found.cells).tolist() == [[1, 0, 1], [1, 1, 1], [1, 2, 1]]


def test_norms_page():
    drawn = norm_axes.page()
    titles = [axes.get_title() for axes in drawn.axes]
    assert titles[1:4] == [
        "LayerNorm\nshared: mean and variance",
        "BatchNorm\nshared: mean and variance",
        "RMSNorm\nshared: root mean square",
    ]
    # Numbers of the example, row by row, and its statistics, of which those of the norm are bold.
    x = norm_axes.example_values()
    normed = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
    tables = {axes.get_title(): axes.texts for axes in drawn.axes[4:]}
    shown = [text.get_text().replace("−", "-") for text in tables["LayerNorm(x)"][:30]]
    np.testing.assert_allclose(np.array(shown, float).reshape(10, 3), normed, atol=0.051)
    counts = {title: sum(text.get_weight() == "bold" for text in texts) for title, texts in tables.items()}
    # Mean, deviation and root mean square of 10 rows or 3 columns; RMSNorm sets only the last.
    assert counts == {"x: 10 tokens, 3 features": 0, "LayerNorm(x)": 30, "BatchNorm(x)": 9, "RMSNorm(x)": 10}


def test_norms_page_has_a_column_for_each_norm(tmp_path, capsys):
    assert [axes.get_title().partition("\n")[0] for axes in norm_axes.page(["dyt"]).axes[:2]] == [
        "activations [B, T, D]", "DynamicTanh"
    ]  # fmt: skip
    assert main(["draw", "norms", "layernom", "--out", str(tmp_path / "out")]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert "layernom is no norm: give some of layernorm, rmsnorm" in error
    assert '(did you mean "layernorm"?)' in error


@pytest.mark.parametrize("tile", [1, 5, 12, 20])
def test_online_softmax_is_attention_over_all_keys(tile):
    q, k, v = online_softmax.example(12)
    scores = k @ q / np.sqrt(len(q))
    steps = online_softmax.online_softmax(scores, v, tile)
    assert [(step.start, step.stop) for step in steps] == [(at, min(at + tile, 12)) for at in range(0, 12, tile)]
    arrays = [jnp.asarray(x, jnp.float32) for x in (q[None, None, None], k[None, :, None], v[None, :, None])]
    context = Context(positions=jnp.array([[0]]), causal=False, key_positions=jnp.arange(12)[None])
    whole = einsum_attention(*arrays, context, Scoring(scale=len(q) ** -0.5))
    np.testing.assert_allclose(steps[-1].output / steps[-1].total, whole[0, 0, 0], atol=1e-5)
    for step in steps:
        seen = scores[: step.stop]
        assert step.maximum == seen.max()
        np.testing.assert_allclose(step.total, np.exp(seen - seen.max()).sum())
        np.testing.assert_allclose(step.output, np.exp(seen - seen.max()) @ v[: step.stop])


def test_online_softmax_of_large_scores_does_not_overflow():
    steps = online_softmax.online_softmax(np.array([-2000.0, 3000.0, 2999.0]), np.eye(3), 1)
    assert [step.factor for step in steps] == [0, 0, 1]
    np.testing.assert_allclose(steps[-1].output / steps[-1].total, [0, 1 / (1 + np.exp(-1)), 1 / (1 + np.e)])


def test_online_softmax_page(tmp_path, capsys):
    drawn = online_softmax.page()
    assert [axes.get_title().splitlines()[0] for axes in drawn.axes[:3]] == [
        "tile 1: keys 0 to 3", "tile 2: keys 4 to 7", "tile 3: keys 8 to 11"
    ]  # fmt: skip
    notes = [axes.texts[0].get_text() for axes in drawn.axes[3:]]
    # The maximum grows in the second tile and not in the third, whose output is that of all keys.
    assert [note.partition(";")[0] for note in notes[1:3]] == ["before × 0.49", "before × 1.00"]
    assert notes[-1] == "largest difference 0.00"
    for arguments, line in (
        (["--tile", "0"], "--tile 0 must be at least 1"),
        (["--length", "30", "--tile", "4"], "--length 30 with --tile 4: at most 6 tiles fit a page"),
    ):
        assert main(["draw", "online-softmax", *arguments, "--out", str(tmp_path / "out")]) == 2
        assert line in capsys.readouterr().err


@pytest.mark.parametrize(("changes", "rows"), [
    ({"embedding__segments": 2, "embedding__norm": True}, ["token", "segment", "position"]),
    ({"position__offset": 2, "embedding__scale": "sqrt_dim"}, ["token", "position"]),
    ({"position__kind": "rope"}, ["token"]),
])  # fmt: skip
def test_the_sum_of_the_drawn_rows_enters_the_first_layer(changes, rows):
    config = resolved(**{f"model__{name}": value for name, value in changes.items()})
    module = make_model(config)
    model = nnx.merge(split(module)[0], random_values(module, 0), {})
    ids, segments = [5, 3, 9, 5], [0, 0, 1, 1]
    found = embedding_rows.embedding_sum(config, ids, segments)
    assert [row.name for row in found.rows] == rows
    tables = {"token": model.embedding, "segment": model.segments, "position": getattr(model.position, "table", None)}
    parts = {row.name: np.asarray(tables[row.name][...])[list(row.rows)] for row in found.rows}
    x = embed(model.embedding[...], jnp.array([ids]), config.model)
    # What embedding.scale does to the token's vector is said by a note.
    parts["token"] *= np.linalg.norm(x) / np.linalg.norm(parts["token"])
    assert any("square root" in note for note in found.notes) == (config.model.embedding.scale == "sqrt_dim")
    expected = jnp.asarray(sum(parts.values()))[None]
    if config.model.embedding.norm:
        expected = model.embedding_norm(expected, None)
        assert found.notes[-1] == "the sum → LayerNorm → layer 0"
    entering = model.embedded(x, Context(positions=jnp.arange(4)[None], causal=False), jnp.array([segments]))
    np.testing.assert_allclose(entering, expected, atol=1e-5)


def test_positions_that_are_no_table():
    shifted = resolved(model__position__kind="sinusoidal", model__position__offset=2)
    assert embedding_rows.embedding_sum(shifted, [4, 4], [0, 0]).rows[-1].rows == (2, 3)
    position = embedding_rows.embedding_sum(resolved(model__position__kind="sinusoidal"), [4, 4], [0, 0]).rows[-1]
    assert (position.table, position.rows) == ("sinusoidal, 16 wide", (0, 1))
    notes = embedding_rows.embedding_sum(resolved("span", model__position__kind="relative_bias"), [4], [0]).notes
    assert notes == (
        "no position is added: relative_bias adds to the scores of attention",
        "the token embedding → layer 0",
    )


def texts(drawn):
    return [text.get_text() for text in drawn.axes[0].texts]


@pytest.mark.parametrize(("count", "padding"), [(3, 2), (17, 1), (18, 0), (19, 2)])
def test_embeddings_page_shows_padding_where_there_is_room(count, padding):
    config, ids = resolved(model__embedding__segments=2), list(range(count))
    shown = texts(embedding_rows.page(config, "a name", [f"t{id}" for id in ids], ids, [0] * count))
    assert shown.count("[PAD]") == padding
    assert any(text.startswith("[PAD] fills") for text in shown) == (padding > 0)
    assert [f"P[{place}]" in shown for place in (0, count - 1, count)] == [True, True, False]
    # Each band of tokens has a name for its rows.
    assert shown.count("segment") == (1 if count <= embedding_rows.IN_A_ROW else 2)


def test_decoders_are_drawn_without_padding():
    assert "[PAD]" not in texts(embedding_rows.page(resolved("causal"), "a name", ["a"], [1], [0]))


def test_embeddings_command(tmp_path, capsys):
    folder = untrained_run(tmp_path, "masked", model__embedding__segments=2, data__row_format="doc_sentences")
    assert draw_files(tmp_path, "embeddings", folder, "--text", "ab", "--second", "c", "--format", "svg") == [
        "embeddings-run.svg"
    ]
    drawn = (tmp_path / "out" / "embeddings-run.svg").read_text(encoding="utf-8")
    assert drawn.count(">[SEP]</text>") == 2
    assert drawn.count(">S[1]</text>") == 2
    capsys.readouterr()
    for arguments, line in (
        ([folder, "--second", "c"], "--second needs --text"),
        ([folder, "--text", "x" * 200], "a page holds 108: give a shorter one"),
        (["configs/elmo.py:tiny"], "model.architecture=elmo embeds the characters of words"),
    ):
        assert main(["draw", "embeddings", *map(str, arguments), "--out", str(tmp_path / "other")]) == 2
        assert line in capsys.readouterr().err
