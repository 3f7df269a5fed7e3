"""Figures of training: gradients by depth."""

import json

import numpy as np
import pytest

from tests.support.small_runs import small
from zoo.draw import depth_profiles, expert_loads
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


def test_loads_of_experts_are_read_by_layer_and_expert(tmp_path):
    def record(step, first, dropped=0.0):
        loads = {
            "layer 0 expert 0": first,
            "layer 0 expert 1": 2 - first,
            "layer 2 expert 0": 1.0,
            "layer 2 expert 1": 1.0,
        }
        entropies, shares = {"layer 0": 0.1 * step, "layer 2": 0.6}, {"layer 0": 0.0, "layer 2": dropped}
        return {"step": step, "expert_load": loads, "router_entropy": entropies, "dropped_assignments": shares}

    folder = write_dynamics(tmp_path / "run", record(1, 0.5), {"step": 2}, record(3, 0.25))
    found = expert_loads.read_loads(folder)
    np.testing.assert_array_equal(found.steps, [1, 3])
    np.testing.assert_allclose(found.loads["layer 0"], [[0.5, 1.5], [0.25, 1.75]])
    np.testing.assert_allclose(found.entropies["layer 0"], [0.1, 0.3])
    drawn = expert_loads.page(found, "run").axes
    np.testing.assert_allclose(drawn[0].images[0].get_array(), [[0.25, 1.75], [1, 1]])
    np.testing.assert_allclose(drawn[1].lines[0].get_ydata(), [1.5, 1.75])
    # Three panels and the scale of colours; another panel only where something is dropped.
    assert len(drawn) == 4
    drops = expert_loads.read_loads(write_dynamics(tmp_path / "full", record(1, 0.5), record(3, 0.25, 0.125)))
    *_, last, _ = expert_loads.page(drops, "run").axes
    np.testing.assert_allclose([line.get_ydata() for line in last.lines], [[0, 0], [0, 0.125]])
    chosen = record(1, 0.5) | {"dropped_assignments": {"layer 0": 0.0}, "unchosen_tokens": {"layer 2": 0.25}}
    both = expert_loads.read_loads(write_dynamics(tmp_path / "both", chosen))
    assert both.what_is_dropped == "assignments dropped or tokens that no expert takes"
    assert {layer: list(shares) for layer, shares in both.dropped.items()} == {"layer 0": [0], "layer 2": [0.25]}
    with pytest.raises(ConfigError, match=r"has no loads of experts"):
        expert_loads.read_loads(write_dynamics(tmp_path / "dense", {"step": 1, "gradient_norm": {}}))
