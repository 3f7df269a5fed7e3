"""Figures of training: gradients by depth, the shift of layer inputs, nearest tokens."""

import json

import numpy as np
import pytest

from tests.draw.test_draw import draw_files, untrained_run
from tests.support.small_runs import small
from zoo.draw import depth_profiles, input_shift, nearest_tokens
from zoo.errors import ConfigError


def write_dynamics(folder, *records):
    folder.mkdir()
    (folder / "dynamics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def test_gradient_profiles_combine_attention_and_feed_forward(tmp_path):
    first, last = (
        {
            "step": step,
            "gradient_norm": {
                "embedding": 9.0,
                "layer 0 attention": 3.0 * step,
                "layer 0 feed-forward": 4.0 * step,
                "layer 0 norms": 100.0,
                "layer 1 attention": 1.0,
                "layer 1 feed-forward": None,
            },
            "residual_rms": {"embedding": 0.1, "layer 0": 1.0, "layer 1": 2.0},
        }
        for step in (1, 3)
    )
    found = depth_profiles.profiles(write_dynamics(tmp_path / "run", first, {"step": 2}, last), "a run")
    assert [(profile.name, profile.step) for profile in found] == [("a run", 1), ("a run", 3)]
    np.testing.assert_allclose(found[1].values["gradient_norm"], [15.0, 1.0])
    np.testing.assert_allclose(found[0].values["residual_rms"], [1.0, 2.0])


def test_gradient_profiles_of_encoder_and_decoder_are_separate(tmp_path):
    norms = {"encoder layer 0 attention": 1.0, "decoder layer 0 attention": 2.0, "decoder layer 0 cross-attention": 2.0}
    found = depth_profiles.profiles(write_dynamics(tmp_path / "run", {"step": 1, "gradient_norm": norms}), "t5")
    assert [profile.name for profile in found] == ["t5 encoder", "t5 decoder"]
    np.testing.assert_allclose(found[1].values["gradient_norm"], [8**0.5])


def test_missing_dynamics_are_reported(tmp_path):
    with pytest.raises(ConfigError, match=r"has no dynamics.jsonl; train it with --config.training.dynamics_every"):
        depth_profiles.profiles(tmp_path, "x")
    with pytest.raises(ConfigError, match="has no gradient norms"):
        depth_profiles.profiles(write_dynamics(tmp_path / "run", {"step": 1}), "x")


def test_at_the_start_takes_one_update_for_each_placement(monkeypatch):
    updates = []

    def one_update(config, folder, log):
        updates.append((config.model.norm.placement, config.training.steps))
        write_dynamics(folder, {"step": 1, "gradient_norm": {"layer 0 attention": 1.0}})

    monkeypatch.setattr(depth_profiles, "run", one_update)
    found = depth_profiles.at_the_start(small(schedule__warmup_steps=4))
    assert [(profile.name, profile.step) for profile in found] == [("pre-norm", 1), ("post-norm", 1)]
    assert updates == [("pre", 1), ("post", 1)]


def test_mean_shift_is_in_standard_deviations():
    before = np.array([[0.0, 10.0], [2.0, 14.0]])
    np.testing.assert_allclose(input_shift.mean_shift(before, before + np.array([3.0, 4.0])), (3 / 1 + 4 / 2) / 2)
    assert input_shift.mean_shift(before, before) == 0


def test_input_shift_reads_every_checkpoint(tmp_path):
    folder = untrained_run(tmp_path)
    found = input_shift.read_shift(folder, "some words to read")
    # There are the initial values and one checkpoint.
    assert found.steps.tolist() == [0, 2]
    assert found.percentiles.shape == (2, 2, 3)
    assert (np.diff(found.percentiles, axis=2) > 0).all()
    assert found.shifts.shape == (1, 2)
    assert (found.shifts > 0).all()
    assert draw_files(tmp_path, "shift", folder, "--format", "png") == ["shift.png"]


def test_nearest_rows_have_the_largest_cosine():
    vectors = np.array([[1.0, 0.0], [2.0, 0.2], [0.0, 1.0], [3.0, 0.0], [-1.0, 0.0]])
    found = nearest_tokens.nearest(vectors, 0, 2, np.array([0, 1, 2, 4]))
    assert [row for row, _ in found] == [1, 2]
    np.testing.assert_allclose(found[0][1], 2 / np.hypot(2, 0.2))


def test_neighbours_of_a_run(tmp_path):
    folder = untrained_run(tmp_path)
    found = nearest_tokens.read_neighbours(folder, "abca", count=3)
    assert found.tokens == ["a", "b", "c"]
    assert [len(row) for row in found.nearest] == [3, 3, 3]
    assert all(name != token for token, row in zip(found.tokens, found.nearest, strict=True) for name, _ in row)
    assert draw_files(tmp_path, "neighbours", folder, "--count", "2", "--format", "png") == ["neighbours.png"]
    with pytest.raises(ConfigError, match="has no token that can be shown"):
        nearest_tokens.read_neighbours(folder, "  ")
