"""The device mesh, and the table that maps logical axes of parameters to mesh axes."""

import math
from collections.abc import Mapping

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from zoo.config import AUTO, ResolvedConfig
from zoo.errors import ConfigError
from zoo.layers.activation_sharding import BATCH_AXES, DATA_AXIS, EXPERT_AXIS, FSDP_AXIS, TENSOR_AXIS
from zoo.layers.feedforward import hidden_dim
from zoo.layers.parameter import vocabulary_rows
from zoo.models.functional import Params

# Logical axis of a parameter -> mesh axis that it is split over.
LOGICAL_AXIS_RULES = {
    "vocab": TENSOR_AXIS,
    "embed": FSDP_AXIS,
    "latent": FSDP_AXIS,
    "mlp": TENSOR_AXIS,
    "heads": TENSOR_AXIS,
    "kv_heads": TENSOR_AXIS,
    "expert": EXPERT_AXIS,
    "layers": None,
}


def make_mesh(config: ResolvedConfig, devices: list[jax.Device] | None = None) -> Mesh:
    """Arranges the devices as (data, fsdp, expert, tensor).

    Raises:
        ConfigError: the devices do not fit the mesh, rows would be split over processes, or the
            batch is not divisible by the devices.
    """
    devices = jax.devices() if devices is None else devices
    sizes = {name: getattr(config.mesh, name) for name in (*BATCH_AXES, TENSOR_AXIS)}
    rest = FSDP_AXIS if sizes[FSDP_AXIS] == -1 else DATA_AXIS if sizes[DATA_AXIS] == -1 else None
    if rest is not None:
        sizes[DATA_AXIS] = max(sizes[DATA_AXIS], 1)
        others = {name: size for name, size in sizes.items() if name != rest}
        if len(devices) % math.prod(others.values()):
            raise ConfigError(f"{len(devices)} devices are not divisible by {_product(others)}")
        sizes[rest] = len(devices) // math.prod(others.values())
    if math.prod(sizes.values()) != len(devices):
        raise ConfigError(
            f"{_product(sizes)} is {math.prod(sizes.values())}, but there are {len(devices)} devices; mesh.data=-1 "
            "takes what is left"
        )
    tensor = sizes[TENSOR_AXIS]
    if jax.process_count() > 1 and jax.local_device_count() % tensor:
        raise ConfigError(
            f"mesh.tensor={tensor} does not divide the {jax.local_device_count()} devices of a process: a row of a "
            "batch belongs to one process"
        )
    _check_rows(config, math.prod(sizes[axis] for axis in BATCH_AXES))
    return Mesh(
        np.array(devices).reshape(tuple(sizes.values())),
        tuple(sizes),
        axis_types=(jax.sharding.AxisType.Auto,) * len(sizes),
    )


def _product(sizes: Mapping[str, int]) -> str:
    """Returns "mesh.data=2 x mesh.tensor=1", without an expert axis of one device."""
    return " x ".join(f"mesh.{name}={size}" for name, size in sizes.items() if name != EXPERT_AXIS or size > 1)


def _check_rows(config: ResolvedConfig, groups: int) -> None:
    """Refuses a batch whose rows cannot be divided over so many groups of devices."""
    setting = config.training.accumulation_steps
    parts, in_parts = (1, "") if setting == AUTO else (setting, f" in training.accumulation_steps={setting} parts")
    axes = "mesh.data x mesh.fsdp" + " x mesh.expert" * (config.mesh.expert > 1)
    by = f"divisible by {groups} devices ({axes})"
    if config.data.batch_size // parts % groups:
        raise ConfigError(f"data.batch_size={config.data.batch_size}{in_parts} is not {by}")
    for rows in config.data.batch_stages[::2]:
        if rows // parts % groups:
            raise ConfigError(f"data.batch_stages: {rows} rows{in_parts} are not {by}")


def parameter_shardings(mesh: Mesh, axes: Params, shapes: Params) -> Params:
    """Returns the sharding of every parameter, from its logical axes by `LOGICAL_AXIS_RULES`.

    A dimension that is not divisible by its mesh axis is not split.
    """

    def sharding(names: tuple[str | None, ...], shape: jax.ShapeDtypeStruct) -> NamedSharding:
        split = [LOGICAL_AXIS_RULES[name] if name else None for name in names]
        return NamedSharding(
            mesh,
            PartitionSpec(
                *(
                    axis if axis and size % mesh.shape[axis] == 0 else None
                    for axis, size in zip(split, shape.shape, strict=True)
                )
            ),
        )

    return jax.tree.map(sharding, axes, shapes, is_leaf=lambda node: isinstance(node, tuple))


def undivided_dimensions(config: ResolvedConfig, mesh: Mesh) -> list[str]:
    """Returns a sentence for each dimension of the model that its axis of the mesh does not divide:
    arrays with it are whole on every device of that axis.
    """
    model, found = config.model, []
    known = AUTO not in (model.vocab_size, model.vocab_multiple) and model.architecture != "elmo"
    for path, size, axis in (
        ("model.vocab_size", vocabulary_rows(model) if known else model.vocab_size, TENSOR_AXIS),
        ("model.dim", model.dim, FSDP_AXIS),
        ("model.embedding.dim", model.embedding.dim, FSDP_AXIS),
        ("model.ffn.hidden_dim", AUTO if model.ffn.hidden_dim == AUTO else hidden_dim(model), TENSOR_AXIS),
    ):
        devices = mesh.shape[axis]
        if size != AUTO and devices > 1 and size % devices:
            multiple = math.lcm(devices, model.vocab_multiple)
            named, divided = f"{path}={size}", f"{path}={-(-size // devices) * devices} would be divided"
            if path == "model.vocab_size" and known:
                divided = f"model.vocab_multiple={multiple} would pad it to {-(-size // multiple) * multiple} rows"
            if path == "model.ffn.hidden_dim" and size != model.ffn.hidden_dim:
                named = f"the hidden width of model.ffn, {size},"
                divided = f"model.ffn.multiple_of={math.lcm(devices, model.ffn.multiple_of)} would round it up"
            found.append(
                f"{named} is not divisible by mesh.{axis}={devices}: arrays with it are whole on every device; "
                f"{divided}"
            )
    return found


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Returns the sharding of a batch: its rows are split over all axes but tensor."""
    return NamedSharding(mesh, PartitionSpec(BATCH_AXES))


def replicated_sharding(mesh: Mesh) -> NamedSharding:
    """Returns the sharding of an array that every device holds as a whole."""
    return NamedSharding(mesh, PartitionSpec())


def data_parallel_size(mesh: Mesh) -> int:
    """Returns the number of groups of devices that rows of a batch are split over."""
    return math.prod(mesh.shape[axis] for axis in BATCH_AXES)


def described_axes(sizes: Mapping[str, int]) -> str:
    """Returns "data 4, fsdp 2, tensor 1" of a mesh; an expert axis is named where it has devices."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items() if name != EXPERT_AXIS or size > 1)
