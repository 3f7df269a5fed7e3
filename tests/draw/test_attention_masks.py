"""Masks of attention and receptive fields, of configs and of models."""

import numpy as np
import pytest

from tests.draw.small_configs import TINY, hybrid, resolved
from tests.support.building import random_values
from tests.support.small_runs import small
from zoo.analysis.activations import record_activations
from zoo.cli.main import main
from zoo.config import load, override, resolve
from zoo.draw.diagrams import architecture_parts, attention_masks
from zoo.draw.diagrams.architecture_parts import columns
from zoo.models.architectures import make_model


def test_masks_of_windows_documents_and_prefixes():
    query, key = np.mgrid[:40, :40]
    (plain,) = attention_masks.masks(resolved(model__attention__window=5), 32)
    small_query, small_key = np.mgrid[:32, :32]
    np.testing.assert_array_equal(plain.visible, (small_key <= small_query) & (small_query - small_key < 5))
    assert (plain.title, plain.notes) == ("self-attention, all layers", "causal, window of 5")

    changes = {"model__attention__window": 3, "model__attention__dilations": (1, 2), "data__isolate_documents": True}
    one, two = attention_masks.masks(resolved(model__position__kind="none", **changes), 40)
    document = np.searchsorted(two.documents, np.arange(40), side="right")
    near = (key <= query) & (query - key < 6) & ((query - key) % 2 == 0) & (document[query] == document[key])
    np.testing.assert_array_equal(two.visible, near)
    assert one.notes == "causal, window of 3, dilation 1 (heads 0, 2)"

    (prefix,) = attention_masks.masks(resolved("prefix decoder"), 32)
    np.testing.assert_array_equal(prefix.visible, (small_key <= small_query) | (small_key < 6))


def test_masks_of_long_rows_are_subsampled():
    (mask,) = attention_masks.masks(resolved(model__attention__window=100), 320)
    query, key = 10 * np.mgrid[:32, :32]
    np.testing.assert_array_equal(mask.visible, (key <= query) & (query - key < 100))
    assert mask.places[-1] == 310
    for window, trained, length in ((100, 320, 320), (100, 64, 200), (100, 4096, 800), (3, 96, 32), (0, 96, 96)):
        config = resolved(model__attention__window=window, data__sequence_length=trained)
        assert attention_masks.row_length(config) == length
    drawn = attention_masks.page(resolved(data__sequence_length=96), "a config")
    assert "a row of 96 tokens, one in 3 shown" in drawn.get_suptitle()
    mask, reach = drawn.axes
    assert [tick.get_text() for tick in mask.get_xticklabels()] == ["0", "24", "48", "72"]
    assert reach.get_legend().get_texts()[0].get_text() == "last token of 96"


def test_masks_of_an_encoder_decoder():
    encoder, decoder, cross = attention_masks.masks(resolved("span"), 8)
    assert encoder.visible.all()
    assert cross.visible.all()
    np.testing.assert_array_equal(decoder.visible, np.tri(8, dtype=bool))


def test_receptive_fields_grow_by_a_window_per_layer():
    (field,) = attention_masks.receptive_fields(resolved(model__attention__window=5, data__sequence_length=64))
    np.testing.assert_array_equal(field.tokens, [1, 5, 9])
    # The windows give what following the mask gives.
    config = resolved(model__attention__window=5)
    context = attention_masks.row_context(config, True, 0, 64, 1)
    (seen,) = attention_masks.visible_by_dilation(config.model, context).values()
    np.testing.assert_array_equal(attention_masks.reach_by_layer({"": seen}, ("", ""), -1), field.tokens)
    (whole,) = attention_masks.receptive_fields(resolved(data__sequence_length=64))
    np.testing.assert_array_equal(whole.tokens, [1, 64, 64])
    near, far = np.eye(6, dtype=bool) | np.eye(6, k=-1, dtype=bool), np.tri(6, dtype=bool)
    np.testing.assert_array_equal(
        attention_masks.reach_by_layer({"near": near, "far": far}, ("near", "near", "far"), 5), [1, 2, 3, 6]
    )
    np.testing.assert_array_equal(
        attention_masks.reach_by_layer({"near": near, "far": far}, ("far", "near", "near"), 3), [1, 4, 4, 4]
    )


def test_windows_reach_beyond_the_row():
    # L (w - 1) + 1 tokens: Mistral's windows reach 131,041, and its row is full after 3 of 32 layers.
    (field,) = attention_masks.receptive_fields(resolve(load("mistral")))
    assert field.formula == "32 × (4,096 − 1) + 1 = 131,041"
    np.testing.assert_array_equal(field.endless, 1 + 4095 * np.arange(33))
    np.testing.assert_array_equal(field.tokens[:5], [1, 4096, 8191, 8192, 8192])
    drawn = attention_masks.page(resolved(model__attention__window=5, data__sequence_length=8), "a config")
    assert [text.get_text() for text in drawn.axes[-1].get_legend().get_texts()] == [
        "last token of 8", "of a longer row:\n2 × (5 − 1) + 1 = 9"
    ]  # fmt: skip

    changes = {"model.layers.pattern": ("near", "near", "far"), "model.num_layers": 4, "model.attention.window": 0}
    changes["model.layers.kinds.near.attention.window"] = 4

    def layers(far):
        return resolve(override(small(**TINY), changes | {"model.layers.kinds.far.attention.window": far}))

    (field,) = attention_masks.receptive_fields(layers(9))
    assert field.formula == "3 × (4 − 1) + 1 × (9 − 1) + 1 = 18"
    assert field.endless.tolist() == [1, 4, 7, 15, 18]
    # One layer that sees the whole row, or gaps in a window, have no such number.
    for config in (
        layers(0),
        resolved(model__position__kind="none", model__attention__window=4, model__attention__dilations=(1, 2)),
        resolved(),
    ):
        (field,) = attention_masks.receptive_fields(config)
        assert (len(field.endless), field.formula) == (0, "")
    # In an encoder a window has as many keys on both sides.
    (field,) = attention_masks.receptive_fields(resolved("masked", model__attention__window=7))
    assert field.endless.tolist() == [1, 7, 13]


@pytest.mark.parametrize(("config", "reach"), [
    (hybrid("gated_convolution", convolution_width=3), [1, 3, 16]),
    (resolved(model__attention__kind="parallel_heads", model__attention__window=4), [1, 16, 16]),
    (resolved(model__attention__window=4), [1, 4, 7]),
], ids=["convolution", "parallel heads", "window"])  # fmt: skip
def test_receptive_fields_are_those_of_the_model(config, reach):
    """The last token's states after each layer, with each earlier token changed in turn."""
    (field,) = attention_masks.receptive_fields(config)
    assert field.tokens.tolist() == reach
    model = make_model(config)
    values = random_values(model, 3)
    rows = np.tile(np.arange(16), (17, 1)).astype(np.int32)
    rows[np.arange(16), np.arange(16)] += 50
    states = record_activations(config, model, values, {}, rows, maps=False)[""].states[:, :, -1]
    changed = (np.abs(states[:, :16] - states[:, 16:]).max(axis=-1) > 0).sum(axis=1)
    assert changed.tolist() == reach
    if config.model.layers.pattern:
        band = attention_masks.masks(config, 16)[0]
        assert band.visible.sum(axis=1).tolist() == [min(3, query + 1) for query in range(16)]
    elif config.model.attention.kind == "parallel_heads":
        (grid,) = attention_masks.masks(config, 16)
        assert grid.visible.sum(axis=1).max() == 4


def test_short_convolutions_are_named_where_they_are_not_followed():
    config = resolved(model__attention__window=4, model__convolution__kind="canon")
    (field,) = attention_masks.receptive_fields(config)
    assert field.name == "last token, without short convolutions,"
    (column,) = columns(config)
    details = [line for part in architecture_parts.parts_of(column.steps) for line in part.details]
    assert "short convolutions (canon) in the block" in details


def test_mask_page_and_bad_arguments(tmp_path, capsys):
    drawn = attention_masks.page(resolved("span"), "a config")
    assert [axes.get_title().splitlines()[0] for axes in drawn.axes] == [
        "encoder self-attention, all layers",
        "decoder self-attention, all layers",
        "cross-attention",
        "receptive field: tokens of a row",
    ]
    assert drawn.get_suptitle().startswith("a config")
    for arguments, line in (
        (["configs/elmo.py:tiny"], "model.architecture=elmo has no attention"),
        (["configs/gpt2.py:tiny", "--length", "-1"], "--length -1 must be at least 1"),
    ):
        assert main(["draw", "mask", *arguments, "--out", str(tmp_path / "out")]) == 2
        assert line in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
