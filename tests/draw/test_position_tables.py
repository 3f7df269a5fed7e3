"""Tables, slopes, buckets and rotations of positions."""

import numpy as np
import pytest

from tests.draw.small_configs import resolved
from zoo.cli.main import main
from zoo.draw import position_tables, rope_pictures


def test_slopes_are_those_that_are_added():
    scaled = resolved(model__position__kind="alibi", model__position__scaled=True)
    panels = position_tables.page(scaled, "").axes
    drawn = [bar.get_height() for bar in panels[0].patches]
    np.testing.assert_allclose(drawn, 2.0 ** -np.arange(2, 10, 2) * scaled.model.attention.scale, rtol=1e-6)


def test_sinusoids_have_the_width_at_which_they_are_added():
    narrow = resolved(
        "masked", model__embedding__dim=8, model__position__kind="sinusoidal", model__head__transform=True
    )
    table = position_tables.page(narrow, "").axes[0].images[0].get_array()
    assert table.shape[1] == 8


def test_rope_wavelengths_and_relative_buckets():
    rope = resolved(model__position__kind="rope", model__position__theta=100.0, model__attention__head_dim=8)
    np.testing.assert_allclose(
        position_tables.wavelengths(rope.model, 16), 2 * np.pi * 100.0 ** (np.arange(4) / 4), rtol=1e-6
    )
    t5 = resolved(model__position__kind="relative_bias", model__position__buckets=8, model__position__max_distance=16)
    distances = np.array([3, 0, -1, -3, -4, -16, -40])
    np.testing.assert_array_equal(position_tables.buckets_by_distance(t5.model, distances), [0, 0, 1, 3, 4, 7, 7])


def test_all_panels_of_a_rope_show_rows_of_one_length():
    fields = {"kind": "rope", "scaling__kind": "dynamic", "scaling__factor": 4.0, "scaling__original_length": 16}
    model = resolved(**{f"model__position__{name}": value for name, value in fields.items()}).model
    angles = rope_pictures.angles_by_pair(model, length=128)
    np.testing.assert_allclose(np.angle(rope_pictures.pair_rotations(model, 128))[1], angles[1], rtol=1e-6)
    assert not np.allclose(angles[1], rope_pictures.angles_by_pair(model)[1], rtol=1e-3)


def test_rope_of_a_hybrid_is_that_of_its_attention(tmp_path, capsys, monkeypatch):
    drawn = []
    for page in ("angles_page", "bound_page"):
        draw = getattr(rope_pictures, page)
        monkeypatch.setattr(
            rope_pictures, page, lambda *given, draw=draw, **more: drawn.append(draw(*given, **more)) or drawn[-1]
        )
    for what in ("rope", "rope-bound"):
        assert main(["draw", what, "lfm2:tiny", "--out", str(tmp_path)]) == 0
    assert [page.get_suptitle() for page in drawn] == ["full: RoPE with base 1,000,000"] * 2
    assert main(["draw", "rope", "gpt2:tiny", "--out", str(tmp_path)]) == 2
    assert "rotates nothing" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "titles"), [
    ("alibi", ["encoder: ALiBi: slope of each head", "decoder: ALiBi: slope of each head"]),
    ("sinusoidal", ["sinusoids, interleaved"]),
])  # fmt: skip
def test_encoder_and_decoder_positions_are_drawn_if_they_differ(kind, titles):
    drawn = position_tables.page(resolved("span", model__position__kind=kind), "a name", 12)
    assert [axes.get_title() for axes in drawn.axes if axes.get_title()][::2] == titles
    image = next(image for axes in drawn.axes for image in axes.images)
    if kind == "alibi":
        np.testing.assert_allclose(image.get_array()[0], -0.25 * np.abs(np.arange(-11, 12)))
    else:
        assert image.get_array().shape == (12, 16)


def test_positions_that_are_not_fixed_are_a_one_line_error(capsys):
    for config, line in (
        ("configs/gpt2.py:tiny", "kind=learned has nothing fixed to draw; zoo draw learned-positions RUN"),
        ("configs/elmo.py:tiny", "has no positions to draw"),
    ):
        assert main(["draw", "positions", config]) == 2
        (error,) = capsys.readouterr().err.splitlines()
        assert line in error
