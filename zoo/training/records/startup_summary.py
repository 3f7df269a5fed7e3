"""The first lines that a run prints."""

from pathlib import Path

import jax
import ml_collections
from jax.sharding import Mesh

from zoo import config as configs
from zoo import data
from zoo.models import cost
from zoo.objectives.attention_kernels import LayerKernel, kernel_lines


def startup_summary(
    config: ml_collections.ConfigDict,
    size: cost.Cost,
    dataset: data.TextDataset,
    mesh: Mesh,
    kernels: list[LayerKernel],
    workdir: Path,
) -> list[str]:
    """Returns lines that say what is trained, on which data and devices, and where it is written.

    Args:
        config: as given, not resolved; the lines name the fields that differ from the defaults.
        size: parameters and FLOPs of the model.
        dataset: data of the run.
        mesh: the devices.
        kernels: the attention kernels of the layers.
        workdir: the run's folder.
    """
    changed = ", ".join(
        f"{path.removeprefix('model.')}={value}"
        for path, (_, value) in configs.difference(configs.default(), config).items()
    )
    parameters = ", ".join(f"{name} {count:,}" for name, count in size.parameters.items())
    devices, axes = jax.devices(), ", ".join(f"{name} {size}" for name, size in mesh.shape.items())
    return [
        f"config     {changed or 'all defaults'}",
        f"parameters {parameters}; {size.flops_per_token / 1e6:,.2f} MFLOP per token",
        f"data       {dataset.description}: {dataset.train_tokens:,} training tokens, "
        f"{dataset.validation_tokens:,} held out",
        f"devices    {len(devices)} x {devices[0].device_kind}, mesh {axes}",
        *(f"attention  {line}" for line in kernel_lines(kernels)),
        f"workdir    {workdir}",
    ]
