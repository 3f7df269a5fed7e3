"""Eight simulated devices against one, in separate processes because JAX fixes the number of
devices at start.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.support.small_runs import small
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.models.functional import logical_axes, parameter_traits, split
from zoo.training.mesh import batch_sharding, make_mesh, parameter_shardings
from zoo.training.optimization.optimizer import make_optimizer
from zoo.training.state import abstract_state, bytes_on_a_device

SCRIPT = """
import json, sys
from pathlib import Path
import jax
from tests.support.small_runs import small, lines
from zoo import config as configs
from zoo.training.checkpoints import checkpoint
from zoo.training.trainer import run
stop_after = int(sys.argv[3])
def poll(self, steps=[0], original=checkpoint.Checkpoints.poll):
    original(self)
    steps[0] += 1
    if steps[0] == stop_after:
        raise SystemExit(0)
checkpoint.Checkpoints.poll = poll
config = configs.override(small(model__attention__num_kv_heads=2, model__position__kind="rope", model__dropout=0.1, training__steps=6,
                                training__checkpoint_every=2, training__eval_lengths="8,32"), json.loads(sys.argv[2]))
try:
    run(config, Path(sys.argv[1]), lambda line: None)
except SystemExit:
    pass
print(json.dumps([len(jax.devices()), [
    value for line in lines(Path(sys.argv[1])) for name, value in sorted(line.items()) if "loss" in name]]))
"""


def curve(folder: Path, devices: int, mesh: dict, stop_after: int = 0) -> list[float]:
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": str(devices),
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    command = [sys.executable, "-c", SCRIPT, str(folder), json.dumps(mesh), str(stop_after)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    count, losses = json.loads(done.stdout.splitlines()[-1])
    assert count == devices
    return losses


@pytest.mark.promise
def test_eight_devices_give_the_curve_of_one(tmp_path):
    alone = curve(tmp_path / "one", 1, {})
    for number, mesh in enumerate([{}, {"mesh.fsdp": 2, "mesh.tensor": 2}]):
        np.testing.assert_allclose(curve(tmp_path / f"mesh{number}", 8, mesh), alone, rtol=2e-5, err_msg=str(mesh))
    assert alone[0] > alone[5]


@pytest.mark.promise
def test_run_resumes_on_another_number_of_devices(tmp_path):
    alone = curve(tmp_path / "alone", 1, {})
    curve(tmp_path / "moved", 4, {"mesh.fsdp": 2, "mesh.tensor": 2}, stop_after=3)
    moved = curve(tmp_path / "moved", 2, {})
    assert len(moved) == len(alone)
    np.testing.assert_allclose(moved, alone, rtol=2e-5)


@pytest.mark.promise
def test_accumulation_on_a_mesh_equals_the_whole_batch(tmp_path):
    # Without dropout, whose masks depend on the part of the batch.
    parts = {"model.dropout": 0.0, "mesh.fsdp": 2, "training.accumulation_steps": 2}
    many = curve(tmp_path / "parts", 4, parts)
    np.testing.assert_allclose(many, curve(tmp_path / "whole", 1, {"model.dropout": 0.0}), rtol=2e-5)


# A loss of two means, whose terms are spread unevenly over the devices.
PAIRS = {
    "model.architecture": "encoder",
    "objective.kind": "masked",
    "objective.next_sentence": True,
    "data.source": "stdlib",
    "data.row_format": "segment_pairs",
    "model.head.pooler": True,
    "model.head.next_sentence": True,
    "model.embedding.segments": 2,
    "data.sequence_length": 32,
    "model.position.kind": "learned",
    "training.eval_lengths": (),
    "model.dropout": 0.0,
}


@pytest.mark.promise
def test_loss_of_two_means_on_a_mesh_equals_the_whole_batch(tmp_path):
    alone = curve(tmp_path / "one", 1, PAIRS)
    for number, mesh in enumerate([{}, {"mesh.fsdp": 2, "mesh.tensor": 2, "training.accumulation_steps": 2}]):
        np.testing.assert_allclose(
            curve(tmp_path / f"mesh{number}", 8 >> number, PAIRS | mesh), alone, rtol=2e-5, err_msg=str(mesh)
        )


# Pairs of heads whose halves are on different devices, heads that share a vector on all devices,
# and a loss whose weights differ between rows.
SPREAD = {
    "differential attention": {"model.attention.kind": "differential", "model.dropout": 0.0},
    "latent attention": {"model.attention.kind": "latent", "model.attention.num_kv_heads": 4, "model.dropout": 0.0},
    "masked diffusion": {
        "model.architecture": "encoder",
        "objective.kind": "masked_diffusion",
        "training.eval_lengths": (),
        "model.dropout": 0.0,
    },
}


@pytest.mark.promise
@pytest.mark.parametrize("name", SPREAD)
def test_what_is_spread_over_devices_equals_one_device(name, tmp_path):
    alone = curve(tmp_path / "one", 1, SPREAD[name])
    mesh = {"mesh.fsdp": 2, "mesh.tensor": 2}
    np.testing.assert_allclose(curve(tmp_path / "mesh", 4, SPREAD[name] | mesh), alone, rtol=2e-5)


# Groups by role, by the axes that devices divide, and by path, besides the group of the rest. Two
# use optimizers whose state has other shapes than the parameters.
GROUPS = {
    "optimizer.clip_norm": 0.5,
    "optimizer.weight_decay": 0.1,
    "optimizer.groups": ["tables", "split", "keys"],
    "optimizer.group.tables.select": "role:embedding",
    "optimizer.group.tables.rate_factor": 0.3,
    "optimizer.group.split.select": "axes:mlp,path:*/query/*",
    "optimizer.group.split.kind": "normuon",
    "optimizer.group.split.muon_heads": "split",
    "optimizer.group.keys.select": "path:*/key/*",
    "optimizer.group.keys.weight_decay": 0.5,
    "optimizer.group.keys.kind": "soap",
}


@pytest.mark.promise
def test_parameter_groups_on_a_mesh_equal_one_device(tmp_path):
    alone = curve(tmp_path / "one", 1, GROUPS)
    mesh = GROUPS | {"mesh.fsdp": 2, "mesh.tensor": 2}
    # Saved on some devices and resumed on another number of devices.
    curve(tmp_path / "many", 8, mesh, stop_after=3)
    np.testing.assert_allclose(curve(tmp_path / "many", 8, mesh), alone, rtol=2e-5)
    ungrouped = curve(tmp_path / "none", 1, {path: GROUPS[path] for path in list(GROUPS)[:2]})
    assert not np.allclose(ungrouped, alone, rtol=1e-3)


def test_shard_shapes_on_a_mesh():
    mesh = jax.sharding.AbstractMesh((2, 4, 2), ("data", "fsdp", "tensor"))
    assert batch_sharding(mesh).shard_shape((16, 9)) == (2, 9)
    model = make_model(configs.resolve(small(model__vocab_size=258, model__num_layers=3)))
    shapes = split(model)[1]
    shardings = parameter_shardings(mesh, logical_axes(model), shapes)
    held = jax.tree.map(lambda shape, sharding: sharding.shard_shape(shape.shape), shapes, shardings)
    layer = held["stack"]["layers"]
    assert held["embedding"] == (129, 8)
    assert layer["attention"]["query"]["kernel"] == (3, 8, 16)
    assert layer["attention"]["output"]["kernel"] == (3, 16, 8)
    assert layer["ffn"]["up"]["kernel"] == (3, 8, 64)
    assert layer["ffn_norm"]["scale"] == (3, 32)
    # An indivisible vocabulary is not sharded.
    odd = make_model(configs.resolve(small()))
    assert parameter_shardings(mesh, logical_axes(odd), split(odd)[1])["embedding"].shard_shape((257, 32)) == (257, 8)


def test_schedule_free_average_is_sharded_like_the_parameters():
    config = configs.resolve(small(model__vocab_size=258, optimizer__kind="schedule_free"))
    model = make_model(config)
    optimizer = make_optimizer(config, parameter_traits(model))
    mesh = jax.sharding.AbstractMesh((2, 4, 2), ("data", "fsdp", "tensor"))
    state = abstract_state(model, optimizer, mesh)
    params, offsets = (jax.tree.leaves(each) for each in (state["params"], state["optimizer"]["schedule_free"].offset))
    assert [leaf.sharding for leaf in offsets] == [leaf.sharding for leaf in params]
    # The parameters, their offsets and their second moments.
    held = bytes_on_a_device(state["params"])
    assert 3 * held <= bytes_on_a_device(state) < 3 * held + 64


def test_a_mesh_that_does_not_fit_is_refused_by_name():
    device = jax.devices()[:1]
    with pytest.raises(ConfigError, match=r"mesh.data=1 x mesh.fsdp=2 x mesh.tensor=1 is 2, but there are 1 devices"):
        make_mesh(configs.resolve(small(mesh__data=1, mesh__fsdp=2)), device)
    with pytest.raises(ConfigError, match=r"are not divisible by mesh.fsdp=2"):
        make_mesh(configs.resolve(small(mesh__fsdp=2)), device)
    with pytest.raises(ConfigError, match=r"data.batch_size=8 .* 3 devices"):
        make_mesh(configs.resolve(small()), device * 3)
