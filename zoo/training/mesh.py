"""The device mesh, and the table that maps logical axes of parameters to mesh axes."""

import math

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from zoo.config import AUTO, ResolvedConfig
from zoo.errors import ConfigError
from zoo.layers.activation_sharding import BATCH_AXES, FSDP_AXIS, TENSOR_AXIS
from zoo.layers.feedforward import hidden_dim
from zoo.layers.parameter import vocabulary_rows
from zoo.models.functional import Params

# Logical axis of a parameter -> mesh axis that it is split over.
LOGICAL_AXIS_RULES = {
    "vocab": TENSOR_AXIS,
    "embed": FSDP_AXIS,
    "mlp": TENSOR_AXIS,
    "heads": TENSOR_AXIS,
    "kv_heads": TENSOR_AXIS,
    "expert": None,
    "layers": None,
}


def make_mesh(config: ResolvedConfig, devices: list[jax.Device] | None = None) -> Mesh:
    """Arranges the devices as (data, fsdp, tensor).

    Raises:
        ConfigError: the devices do not fit the mesh, rows would be split over processes, or the
            batch is not divisible by the devices.
    """
    devices = jax.devices() if devices is None else devices
    data, fsdp, tensor = config.mesh.data, config.mesh.fsdp, config.mesh.tensor
    if fsdp == -1:
        data = max(data, 1)
        if len(devices) % (data * tensor):
            raise ConfigError(f"{len(devices)} devices are not divisible by mesh.data={data} x mesh.tensor={tensor}")
        fsdp = len(devices) // (data * tensor)
    elif data == -1:
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
    setting = config.training.accumulation_steps
    parts, in_parts = (1, "") if setting == AUTO else (setting, f" in training.accumulation_steps={setting} parts")
    by = f"divisible by {data * fsdp} devices (mesh.data x mesh.fsdp)"
    if config.data.batch_size // parts % (data * fsdp):
        raise ConfigError(f"data.batch_size={config.data.batch_size}{in_parts} is not {by}")
    for rows in config.data.batch_stages[::2]:
        if rows // parts % (data * fsdp):
            raise ConfigError(f"data.batch_stages: {rows} rows{in_parts} are not {by}")
    return Mesh(
        np.array(devices).reshape(data, fsdp, tensor),
        (*BATCH_AXES, TENSOR_AXIS),
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
    """Returns the sharding of a batch: its rows are split over the data and fsdp axes."""
    return NamedSharding(mesh, PartitionSpec(BATCH_AXES))


def replicated_sharding(mesh: Mesh) -> NamedSharding:
    """Returns the sharding of an array that every device holds as a whole."""
    return NamedSharding(mesh, PartitionSpec())


def data_parallel_size(mesh: Mesh) -> int:
    """Returns the number of groups of devices that rows of a batch are split over."""
    return math.prod(mesh.shape[axis] for axis in BATCH_AXES)
