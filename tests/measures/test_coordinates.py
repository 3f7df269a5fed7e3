"""The coordinate check: the scale of activations is independent of width only under muP."""

import math

import pytest

from tests.measures.shipped import drawing
from tests.support.small_runs import small
from zoo.cli.main import main
from zoo.errors import ConfigError

# The learning rate is high enough for a few updates to show their scale.
LEARNING = {"optimizer__learning_rate": 0.03, "data__batch_size": 8, "data__sequence_length": 16}


@pytest.fixture
def coordinates():
    return drawing("coordinates")


@pytest.mark.promise(reason="models of several widths are trained")
@pytest.mark.parametrize(
    "tied", [True, pytest.param(False, marks=pytest.mark.slow(reason="the rates of the body are the same"))]
)
def test_activations_keep_their_scale_only_under_mup(coordinates, tied):
    def slopes(parametrization, seed):
        config = small(model__parametrization=parametrization, model__tie_embeddings=tied, seed=seed, **LEARNING)
        return coordinates.coordinates(config, (32, 128), 3).slopes(3)

    # A single seed differs from 0 by up to 0.4.
    seeds = [slopes("mup", seed) for seed in range(3)]
    assert slopes("standard", 0)["layer 0"] > 1
    assert all(abs(sum(one[name] for one in seeds) / len(seeds)) < 0.25 for name in seeds[0]), seeds


def test_at_width_scales_heads_and_hidden_width(coordinates):
    config = small(model__parametrization="mup", model__attention__num_kv_heads=2, model__ffn__hidden_dim=48)
    assert coordinates.at_width(config, 64, 32) == {
        "model.dim": 64,
        "model.attention.num_heads": 8,
        "model.attention.num_kv_heads": 4,
        "model.ffn.hidden_dim": 96,
        "model.base_dim": 32,
    }
    assert coordinates.at_width(small(model__attention__num_heads=1), 48, 32) == {"model.dim": 48}


def test_bad_widths_are_rejected(coordinates, capsys):
    with pytest.raises(ConfigError, match="at least two"):
        coordinates.coordinates(small(), (32, 32), 1)
    for bad, line in (
        (["--widths", "32,x"], "--widths 32,x: expected whole numbers"),
        (["--updates", "0"], "--updates 0 must be at least 1"),
    ):
        assert main(["draw", "coordinates", "gpt2:tiny", *bad]) == 2
        assert line in capsys.readouterr().err


def test_the_figure_has_a_row_for_each_config(coordinates):
    one = coordinates.Coordinates(
        (32, 64), {name: [[1.0, 2.0], [1.0, 4.0]] for name in ("embedding", "layer 0", "logits")}
    )
    assert math.isclose(one.slopes(1)["logits"], 2)
    drawn = coordinates.page([one, one], ["standard", "mup"])
    assert [axes.get_title() for axes in drawn.axes] == [
        "embedding, slope 2.00",
        "layer 0, slope 2.00",
        "logits, slope 2.00",
    ] * 2
