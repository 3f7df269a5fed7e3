"""Eight simulated devices against one. JAX fixes the number of devices at start, so one other process
trains all cases on eight.
"""

import contextlib
import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.support.chosen_cases import cases_of, chosen_cases
from tests.support.small_runs import lines, small
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.models.architectures import make_model
from zoo.models.functional import logical_axes, parameter_traits, split
from zoo.training.checkpoints import checkpoint
from zoo.training.mesh import batch_sharding, make_mesh, parameter_shardings
from zoo.training.optimization.optimizer import make_optimizer
from zoo.training.state import abstract_state, bytes_on_a_device
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run

LENGTHS = {"training.eval_lengths": (8, 32)}
WITHOUT_DROPOUT = {"model.dropout": 0.0}
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
}
DIFFUSION = WITHOUT_DROPOUT | {"model.architecture": "encoder", "objective.kind": "masked_diffusion"}
# Its biases follow counts over both parts of a batch and all devices, and move far enough to change
# the choices of the next update.
EXPERTS = WITHOUT_DROPOUT | {
    "model.ffn.kind": "moe",
    "model.ffn.hidden_dim": 16,
    "model.ffn.experts.bias_rate": 0.02,
    "model.ffn.experts.sequence_balance_weight": 0.01,
    "model.ffn.experts.z_weight": 0.01,
    "model.ffn.experts.shared_dim": 8,
}
# States of heads that are on different devices, beside a layer of attention.
HYBRID = WITHOUT_DROPOUT | {
    "model.attention.num_kv_heads": 4,
    "model.num_layers": 3,
    "model.position.kind": "none",
    "model.layers.pattern": ("delta", "mamba", "full"),
    "model.layers.kinds.delta.attention.kind": "gated_delta",
    "model.layers.kinds.mamba.attention.kind": "mamba2",
    "model.layers.kinds.mamba.ffn.kind": "none",
    "model.layers.kinds.full.attention.kind": "softmax",
    "data.isolate_documents": True,
}
# Numbers that apply to the whole model or, as defaults, to groups of parameters.
CLIPPED = LENGTHS | {"optimizer.clip_norm": 0.5, "optimizer.weight_decay": 0.1}
# Groups by role, by the axes that devices divide, and by path, besides the group of the rest. Two
# use optimizers whose state has other shapes than the parameters.
GROUPS = CLIPPED | {
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
MESH = {"mesh.fsdp": 2, "mesh.tensor": 2}
# Fields of a run, and what differs on eight devices. In the two kinds of attention the halves of a
# pair of heads are on different devices, and heads share a vector on all devices; the weights of
# the diffusion's loss differ between rows. Masks of dropout belong to rows, and
# neither devices nor the parts of a batch change them.
CASES = {
    "rows": (CLIPPED, {}),
    "two means": (PAIRS, {}),
    "two means, accumulated": (PAIRS, MESH | {"training.accumulation_steps": 2}),
    "differential attention": (WITHOUT_DROPOUT | {"model.attention.kind": "differential"}, MESH),
    "latent attention": (WITHOUT_DROPOUT | {"model.attention.kind": "latent", "model.attention.num_kv_heads": 4}, MESH),
    "masked diffusion": (DIFFUSION, MESH),
    "layers with a state": (HYBRID, MESH),
    "mixture of experts": (EXPERTS, MESH | {"training.accumulation_steps": 2}),
    # Over the whole batch on one device, and so without parts here.
    "experts on their own devices": (EXPERTS | {"model.ffn.experts.balance_weight": 0.05}, MESH | {"mesh.expert": 2}),
    "experts on their own devices, accumulated": (
        EXPERTS,
        {"mesh.data": 2, "mesh.expert": 2, "mesh.tensor": 2, "training.accumulation_steps": 2},
    ),
    "parameter groups": (GROUPS, MESH),
}
# The others share their mesh and their kind of loss or of layers with one of these.
FEW = ("rows", "two means, accumulated", "differential attention", "mixture of experts", "parameter groups")
PROGRAM = "import sys; from tests.training.sharding.test_mesh import train_all; train_all(*sys.argv[1:])"


def train(folder, fields, stop_after=0):
    """Trains, or continues; with `stop_after` the run is interrupted in that update."""
    base = small(
        model__attention__num_kv_heads=2,
        model__position__kind="rope",
        model__dropout=0.1,
        training__steps=6,
        training__checkpoint_every=2,
    )
    polls, original = itertools.count(1), checkpoint.Checkpoints.poll

    def poll(self):
        original(self)
        if next(polls) == stop_after:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(checkpoint.Checkpoints, "poll", poll)
        run(configs.override(base, fields), folder, lambda line: None)


def losses(folder):
    return [value for line in lines(folder) for name, value in sorted(line.items()) if "loss" in name]


def train_all(top, *names):
    """Trains these cases. The groups are saved and resumed; `begun` is a copy of what they have saved,
    to be resumed on one device.
    """
    for name, (fields, mesh) in ((name, CASES[name]) for name in names):
        if name == "parameter groups":
            train(Path(top) / name, fields | mesh, stop_after=3)
            shutil.copytree(Path(top) / name, Path(top) / "begun")
        train(Path(top) / name, fields | mesh)


@pytest.fixture(scope="module")
def on_eight(tmp_path_factory, request):
    """The folder of the runs on eight devices: of the cases that are tested, and the groups."""
    names = dict.fromkeys([*chosen_cases(request), "parameter groups"])
    top = tmp_path_factory.mktemp("eight")
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": "8",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM, top, *names], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return top


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Returns a function: fields as JSON -> the folder of their run on one device."""

    @functools.cache
    def folder_of(fields):
        folder = tmp_path_factory.mktemp("one") / "run"
        train(folder, json.loads(fields))
        return folder

    return folder_of


on_other_devices = pytest.mark.promise(reason="another process trains on eight devices")


@on_other_devices
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", cases_of(CASES, FEW, "other devices train the same kinds of programs above"))
def test_eight_devices_give_the_curve_of_one(name, on_eight, alone):
    expected = alone(json.dumps(CASES[name][0]))
    assert read_json(on_eight / name / "meta.json")["device"]["count"] == 8
    np.testing.assert_allclose(losses(on_eight / name), losses(expected), rtol=2e-5)
    # What follows from whole numbers, the biases of the choice of experts, is equal.
    for here, there in zip(
        *(jax.tree.leaves(load_trained(each).stats) for each in (expected, on_eight / name)), strict=True
    ):
        np.testing.assert_array_equal(here, there)
    trained = [line["train/loss"] for line in lines(on_eight / name) if "train/loss" in line]
    assert len(trained) == 6
    assert trained[-1] < trained[0]


@on_other_devices
@pytest.mark.timeout(1200)
def test_run_resumes_on_another_number_of_devices(on_eight, alone):
    assert not (on_eight / "begun" / "checkpoints" / "6").exists()
    train(on_eight / "begun", GROUPS)
    np.testing.assert_allclose(losses(on_eight / "begun"), losses(alone(json.dumps(GROUPS))), rtol=2e-5)


@on_other_devices
def test_parameter_groups_change_the_curve(alone):
    plain, grouped = (losses(alone(json.dumps(fields))) for fields in (CLIPPED, GROUPS))
    assert not np.allclose(plain, grouped, rtol=1e-3)


def test_shard_shapes_on_a_mesh():
    mesh = jax.sharding.AbstractMesh((2, 4, 1, 2), ("data", "fsdp", "expert", "tensor"))
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
    # Where heads are made of a latent vector, fsdp divides that.
    narrow = {"model__attention__latent_dim": 8, "model__attention__query_latent_dim": 16}
    latent = make_model(configs.resolve(small(model__attention__kind="latent", **narrow)))
    shapes = split(latent)[1]
    shardings = parameter_shardings(mesh, logical_axes(latent), shapes)
    held = jax.tree.map(lambda shape, sharding: sharding.shard_shape(shape.shape), shapes, shardings)
    attention = held["stack"]["layers"]["attention"]
    assert attention["query"]["kernel"][1] == 16 // 4
    assert attention["key"]["kernel"][1] == attention["value"]["kernel"][1] == 8 // 4
    # An indivisible vocabulary is not sharded.
    odd = make_model(configs.resolve(small()))
    assert parameter_shardings(mesh, logical_axes(odd), split(odd)[1])["embedding"].shard_shape((257, 32)) == (257, 8)


def test_schedule_free_average_is_sharded_like_the_parameters():
    config = configs.resolve(small(model__vocab_size=258, optimizer__kind="schedule_free"))
    model = make_model(config)
    optimizer = make_optimizer(config, parameter_traits(model))
    mesh = jax.sharding.AbstractMesh((2, 4, 1, 2), ("data", "fsdp", "expert", "tensor"))
    state = abstract_state(config, model, optimizer, mesh)
    params, offsets = (jax.tree.leaves(each) for each in (state["params"], state["optimizer"]["schedule_free"].offset))
    assert [leaf.sharding for leaf in offsets] == [leaf.sharding for leaf in params]
    # The parameters, their offsets and their second moments.
    held = bytes_on_a_device(state["params"])
    assert 3 * held <= bytes_on_a_device(state) < 3 * held + 64


def test_either_axis_takes_the_devices_that_the_others_leave(monkeypatch):
    monkeypatch.setattr("zoo.training.mesh.Mesh", lambda devices, axes, axis_types: devices.shape)
    devices = jax.devices()[:1] * 8
    sizes = {(-1, 2): (4, 2, 1, 1), (-1, -1): (1, 8, 1, 1), (2, -1): (2, 4, 1, 1), (4, 2): (4, 2, 1, 1)}
    for (data, fsdp), shape in sizes.items():
        assert make_mesh(configs.resolve(small(mesh__data=data, mesh__fsdp=fsdp)), devices) == shape


def test_a_mesh_that_does_not_fit_is_refused_by_name():
    device = jax.devices()[:1]
    with pytest.raises(ConfigError, match=r"mesh.data=1 x mesh.fsdp=2 x mesh.tensor=1 is 2, but there are 1 devices"):
        make_mesh(configs.resolve(small(mesh__data=1, mesh__fsdp=2)), device)
    with pytest.raises(ConfigError, match=r"are not divisible by mesh.fsdp=2"):
        make_mesh(configs.resolve(small(mesh__fsdp=2)), device)
    with pytest.raises(ConfigError, match=r"1 devices are not divisible by mesh.data=2 x mesh.tensor=1"):
        make_mesh(configs.resolve(small(mesh__data=2, mesh__fsdp=-1)), device)
    with pytest.raises(ConfigError, match=r"data.batch_size=8 .* 3 devices"):
        make_mesh(configs.resolve(small()), device * 3)
