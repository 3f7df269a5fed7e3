"""The device mesh, and the table that maps logical axes of parameters to mesh axes."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from zoo.config import ResolvedConfig
from zoo.errors import ConfigError
from zoo.models.functional import Params

# Logical axis of a parameter -> mesh axis that it is split over.
LOGICAL_AXIS_RULES = {
    "vocab": "tensor",
    "embed": "fsdp",
    "mlp": "tensor",
    "heads": "tensor",
    "kv_heads": "tensor",
    "layers": None,
}
BATCH_AXES = ("data", "fsdp")


def make_mesh(config: ResolvedConfig, devices: list[jax.Device] | None = None) -> Mesh:
    """Arranges the devices as (data, fsdp, tensor).

    Raises:
        ConfigError: the devices do not fit the mesh, rows would be split over processes, or the
            batch is not divisible by the devices.
    """
    devices = jax.devices() if devices is None else devices
    data, fsdp, tensor = config.mesh.data, config.mesh.fsdp, config.mesh.tensor
    if data == -1:
        if len(devices) % (fsdp * tensor):
            raise ConfigError(f"{len(devices)} devices are not divisible by mesh.fsdp={fsdp} x mesh.tensor={tensor}")
        data = len(devices) // (fsdp * tensor)
    if data * fsdp * tensor != len(devices):
        raise ConfigError(
            f"mesh.data={data} x mesh.fsdp={fsdp} x mesh.tensor={tensor} is {data * fsdp * tensor}, "
            f"but there are {len(devices)} devices; mesh.data=-1 takes what is left"
        )
    if jax.process_count() > 1 and jax.local_device_count() % tensor:
        raise ConfigError(
            f"mesh.tensor={tensor} does not divide the {jax.local_device_count()} devices of a process: a row of a "
            "batch belongs to one process"
        )
    part = config.data.batch_size // config.training.accumulation_steps
    if part % (data * fsdp):
        raise ConfigError(
            f"data.batch_size={config.data.batch_size} in training.accumulation_steps="
            f"{config.training.accumulation_steps} parts is not divisible by {data * fsdp} devices "
            "(mesh.data x mesh.fsdp)"
        )
    return Mesh(
        np.array(devices).reshape(data, fsdp, tensor),
        ("data", "fsdp", "tensor"),
        axis_types=(jax.sharding.AxisType.Auto,) * 3,
    )


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


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Returns the sharding of a batch: its rows are split over the data and fsdp axes."""
    return NamedSharding(mesh, PartitionSpec(BATCH_AXES))


def replicated_sharding(mesh: Mesh) -> NamedSharding:
    """Returns the sharding of an array that every device holds as a whole."""
    return NamedSharding(mesh, PartitionSpec())


def data_parallel_size(mesh: Mesh) -> int:
    """Returns the number of groups of devices that rows of a batch are split over."""
    return mesh.shape["data"] * mesh.shape["fsdp"]
