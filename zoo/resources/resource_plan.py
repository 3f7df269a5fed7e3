"""Estimates for a run on many devices before it starts: memory, communication and time; and the
smallest change with which it fits.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import ml_collections
from jax._src.cudnn import fused_attention_stablehlo as jax_cudnn
from jax.sharding import Mesh

from zoo import config as configs
from zoo.config import ATTENTION_SUPPORT, AUTO, ResolvedConfig
from zoo.config.kinds import PLACEMENT_KINDS
from zoo.data.pipeline.batch_stages import BatchShape, batch_shapes
from zoo.errors import ConfigError
from zoo.layers.activation_sharding import BATCH_AXES
from zoo.layers.attention.kernels import fused, splash
from zoo.layers.platform import Platform
from zoo.models import cost
from zoo.models.model_sizes import Size, model_sizes
from zoo.nested import flatten, unflatten
from zoo.objectives.attention_kernels import attention_kernels, kernel_lines
from zoo.objectives.token_chunks import chunk_tokens, default_chunk_tokens
from zoo.resources.abstract_run import abstract_program, lowered_step
from zoo.resources.attention_stand_in import fused_attention_stand_in, splash_attention_stand_in
from zoo.resources.compiled_program import CompiledProgram
from zoo.resources.target_devices import SLICES, compile_for, needed_temporaries, target_devices, why_not_compiled
from zoo.training.accumulation import accumulation_parts
from zoo.training.mesh import data_parallel_size, undivided_dimensions
from zoo.training.runtime.device_peaks import DEVICES, DeviceKind
from zoo.training.state import bytes_on_a_device

USABLE_MEMORY = 0.92
"""Share of a device's memory that a program can have; the rest holds the runtime and fragments."""
SMALLEST_CHUNK = 1024
# cuDNN's attention, splash attention, libtpu's products of groups of rows, kernels in Pallas for GPUs.
_KERNELS = re.compile(r"__cudnn\$fmha|splash_|ragged-dot(?!-metadata)|mosaic_gpu|__gpu\$xla\.gpu\.triton")

Change = dict[str, Any]
"""{path of a field: its new value}."""


@dataclass(frozen=True)
class Measured:
    """Memory and communication of one compiled step, on one device.

    Attributes:
        temporaries: bytes of all temporary arrays.
        wire: bytes sent, by kind of collective.
        counts: number of collectives, by kind.
        kept: (bytes, shape) of the largest arrays that loops carry, largest first.
        repeated: shapes of products in loops that have the rows of the whole batch.
        kernels: how often each fused kernel runs, by its name in the program: attention, and the
            products of experts on TPUs.
        complete: False if the compiler only said how much memory the program would need, more than
            there is.
    """

    temporaries: float
    wire: Mapping[str, float]
    counts: Mapping[str, float]
    kept: tuple[tuple[int, str], ...]
    repeated: tuple[str, ...]
    kernels: Mapping[str, float] = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True)
class Stage:
    """Updates whose batches have one shape.

    Attributes:
        steps: number of these updates.
        rows, length: of their batches.
        measured: the step compiled for them.
        flops: operations of a step on each device, recomputed ones included.
        seconds: lower bounds of a step by compute, memory and wire; empty without a device.
    """

    steps: int
    rows: int
    length: int
    measured: Measured
    flops: float
    seconds: dict[str, float]

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.rows * self.length


@dataclass(frozen=True)
class ResourcePlan:
    """The needs of a run on a number of devices.

    Attributes:
        devices: number of devices.
        device: name of their kind in `DEVICES`, or None.
        simulated: why the step was compiled for a CPU and not for these devices; empty if it was
            compiled for them.
        mesh: size of each axis.
        parts: parts that a batch is cut into.
        kernel: the attention kernel that was planned with.
        parameters: number of parameters.
        state: bytes of parameters and optimizer state on each device; exact.
        stages: the updates by the shape of their batches, in order; whole batches come last, after
            those of `data.length_stages` and `data.batch_stages`.
        warnings: what is likely to be wrong, one sentence each.
        active_parameters: number of parameters that are applied to a token; None without experts.
        attention: the kernel of each kind of layers on the device, and why it is not the fused one, as
            a run's first lines say it.
        cached_bytes, state_bytes: what a decoder keeps of a token and of a text, see `ModelSizes`.
    """

    devices: int
    device: str | None
    simulated: str
    mesh: dict[str, int]
    parts: int
    kernel: str
    parameters: int
    state: float
    stages: tuple[Stage, ...]
    warnings: tuple[str, ...]
    active_parameters: int | None = None
    attention: tuple[str, ...] = ()
    cached_bytes: Size = None
    state_bytes: Size = None

    @property
    def whole(self) -> Stage:
        """The updates with whole batches."""
        return self.stages[-1]

    @property
    def largest(self) -> Stage:
        """The updates with the most temporaries."""
        return max(reversed(self.stages), key=lambda stage: stage.measured.temporaries)

    @property
    def memory(self) -> float:
        """Bytes that a device needs, at most, in any update."""
        return self.state + self.largest.measured.temporaries

    @property
    def limit(self) -> float | None:
        """Bytes that a program can have on a device: what its compiler allows, or else most of the
        memory; None without a device.
        """
        if self.device is None:
            return None
        compiled = not self.simulated and self.device in SLICES
        return SLICES[self.device].memory if compiled else USABLE_MEMORY * DEVICES[self.device].memory

    @property
    def steps(self) -> int:
        """Updates of the run."""
        return sum(stage.steps for stage in self.stages)

    @property
    def tokens(self) -> int:
        """Tokens of the run."""
        return sum(stage.steps * stage.tokens for stage in self.stages)

    @property
    def flops(self) -> float:
        """Operations of the run on each device."""
        return sum(stage.steps * stage.flops for stage in self.stages)

    def run_seconds(self, share: float = 1.0) -> float | None:
        """Returns a lower bound of the seconds of the run; None without a device.

        Args:
            share: of the peak that is computed with.
        """
        if self.device is None:
            return None
        return sum(
            stage.steps * max((stage.seconds | {"compute": stage.seconds["compute"] / share}).values())
            for stage in self.stages
        )

    @property
    def fits(self) -> bool | None:
        """Whether `memory` is within `limit` and no compiler says otherwise; None without a device."""
        if self.limit is None:
            return None
        return self.memory <= self.limit and all(stage.measured.complete for stage in self.stages)


def config_for(config: ResolvedConfig, device: str | None) -> ResolvedConfig:
    """Returns a config with what is chosen by the device written out: the chunk of the loss, and the
    attention kernel where it is the same in all layers.
    """
    platform = _platform(device)
    changes: dict[str, object] = {}
    if config.objective.chunk_tokens == AUTO:
        changes["objective.chunk_tokens"] = default_chunk_tokens(config.model.vocab_size, platform.name)
    if device is not None and config.model.attention.implementation == AUTO:
        layers = attention_kernels(config, platform)
        kernels = {layer.kernel.split()[-1] for layer in layers}
        if len(kernels) == 1 and (kernel := kernels.pop()) in ATTENTION_SUPPORT:
            changes["model.attention.implementation"] = kernel
    return configs.resolve(configs.override(config, changes))


def _platform(device: str | None) -> Platform:
    """Returns one device of a kind; a CPU for None."""
    return Platform("cpu") if device is None else Platform(DEVICES[device].platform, 1, DEVICES[device].capability)


def make_plan(config: ResolvedConfig, device: str | None = None) -> ResourcePlan:
    """Plans a run on as many devices of a kind as the process has, which may be simulated.

    The step is compiled for that kind where its compiler is installed, or else for the process's
    devices. Unrolled stacks of many layers are compiled with fewer, and what depends on the depth is
    extended linearly.

    Args:
        config: the resolved config.
        device: name of the kind of device in `DEVICES`; None to leave out times.

    Raises:
        ConfigError: the devices do not fit the config, or an objective that cannot be planned.
    """
    attention = (
        (config.model.attention.implementation,)
        if device is None
        else tuple(kernel_lines(attention_kernels(config, _platform(device))))
    )
    config, devices = config_for(config, device), jax.devices()
    if not (simulated := why_not_compiled(device, len(devices))):
        try:
            plan = _plan(config, device, target_devices(device, len(devices)), "")
            return replace(plan, attention=attention)
        except (jax.errors.JaxRuntimeError, NotImplementedError) as error:
            simulated = f"the compiler for {device} failed: {str(error).splitlines()[0]:.200}"
    return replace(_plan(config, device, devices, simulated), attention=attention)


def _plan(config: ResolvedConfig, device: str | None, devices: list[jax.Device], simulated: str) -> ResourcePlan:
    """Plans a run on the given devices, which stand for as many of a kind."""
    program = abstract_program(config, devices)
    mesh, kind = program.mesh, None if device is None else DEVICES[device]
    parts, state = accumulation_parts(config, data_parallel_size(mesh)), bytes_on_a_device(program.abstract_state)
    parameters, sizes = cost.summary(config).parameters, model_sizes(config)
    stages = tuple(_stage(config, shape, kind, parts, state, devices) for shape in batch_shapes(config))
    return ResourcePlan(
        devices=mesh.size,
        device=device,
        simulated=simulated,
        mesh=dict(mesh.shape),
        parts=parts,
        kernel=config.model.attention.implementation,
        parameters=parameters["total"],
        state=state,
        stages=stages,
        warnings=tuple(warnings(config, mesh, stages[-1].measured)),
        active_parameters=parameters.get("active"),
        cached_bytes=sizes.cached_bytes,
        state_bytes=sizes.state_bytes,
    )


def _stage(
    config: ResolvedConfig,
    shape: BatchShape,
    kind: DeviceKind | None,
    parts: int,
    state: float,
    devices: list[jax.Device],
) -> Stage:
    """Plans the updates whose batches have one shape."""
    data = config.data
    if (shape.rows, shape.length) != (data.batch_size, data.sequence_length):
        config = _with_shape(config, shape, parts)
    measured = measure(config, devices)
    recomputed = 4 / 3 if config.model.remat == "full" else 1.0
    flops = cost.summary(config).flops_per_token * shape.rows * shape.length / len(devices) * recomputed
    seconds = {} if kind is None else lower_bounds(config, kind, flops, state, measured)
    return Stage(*shape, measured, flops, seconds)


def _with_shape(config: ResolvedConfig, shape: BatchShape, parts: int) -> ResolvedConfig:
    """Returns a config whose batches have a shape. Nothing is derived or checked anew: what depends on
    the length of rows, such as a table of positions, stays that of whole rows.
    """
    changes = {
        "data.batch_size": shape.rows,
        "data.sequence_length": shape.length,
        "training.accumulation_steps": parts,
        "training.microbatch_size": 0,
    }
    return ml_collections.FrozenConfigDict(unflatten(flatten(config) | changes))


def lower_bounds(
    config: ResolvedConfig, kind: DeviceKind, flops: float, state: float, measured: Measured
) -> dict[str, float]:
    """Returns the seconds that a step takes at least, by what limits it.

    Memory is read and written at least once for the state, and once for what is kept for the
    backward pass. What is sent is unknown of a program that does not fit.
    """
    peak = kind.bfloat16 if config.model.dtype == "bfloat16" else kind.float32
    kept = sum(size for size, _ in measured.kept)
    return {
        "compute": flops / peak,
        "memory": 2 * (state + kept) / kind.bandwidth,
        **({"wire": sum(measured.wire.values()) / kind.wire} if measured.complete else {}),
    }


def measure(config: ResolvedConfig, devices: list[jax.Device]) -> Measured:
    """Compiles a step of a config for devices and reads what it needs.

    Args:
        config: the resolved config.
        devices: those of the process, or those that `target_devices` returns.
    """
    # With `layers.distinct` the number of stored layers stays, and each is applied once per turn.
    period = max(1, len(config.model.layers.pattern), config.model.layers.distinct)
    depth = config.model.num_layers
    sides = config.model.architecture == "encoder_decoder"
    looped = config.model.layers.sharing == "cycle"
    # Each layer keeps the outputs of all before it, which no two depths extend to a third.
    across = config.model.norm.placement in PLACEMENT_KINDS.having("depth")
    if config.model.scan_layers or sides or looped or across or depth <= 4 * period or depth % period:
        return _measure(config, devices)
    few, more = (_measure(_with_depth(config, turns * period), devices) for turns in (2, 3))
    scale = depth / period - 2

    def extended(one: float, other: float) -> float:
        return one + (other - one) * scale

    def by_name(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
        return {name: extended(one.get(name, 0), other.get(name, 0)) for name in sorted({*one, *other})}

    return Measured(
        temporaries=extended(few.temporaries, more.temporaries),
        wire=by_name(few.wire, more.wire),
        counts=by_name(few.counts, more.counts),
        kept=more.kept,
        repeated=more.repeated,
        kernels=by_name(few.kernels, more.kernels),
        complete=few.complete and more.complete,
    )


def _with_depth(config: ResolvedConfig, layers: int) -> ResolvedConfig:
    return configs.resolve(configs.override(config, {"model.num_layers": layers}))


def _measure(config: ResolvedConfig, devices: list[jax.Device]) -> Measured:
    program = abstract_program(config, devices)
    state = bytes_on_a_device(program.abstract_state)
    with _planned_kernels(Platform.of(program.mesh)):
        lowered = lowered_step(config, program)
    try:
        compiled = compile_for(devices[0].platform, lowered)
    except jax.errors.JaxRuntimeError as error:
        if (needed := needed_temporaries(error, state)) is None:
            raise
        return Measured(needed, {}, {}, (), (), complete=False)
    found = CompiledProgram(compiled.as_text())
    wire: dict[str, float] = {}
    counts: dict[str, float] = {}
    for each in found.collectives():
        wire[each.kind] = wire.get(each.kind, 0) + each.wire_bytes
        counts[each.kind] = counts.get(each.kind, 0) + each.count
    groups = data_parallel_size(program.mesh)
    rows = config.data.batch_size // accumulation_parts(config, groups)
    tokens = rows * config.data.sequence_length
    repeated = [
        str(each.dims)
        for each in found.products()
        if groups > 1 and each.in_loop and (each.dims[:1] == (tokens,) or (len(each.dims) > 3 and each.dims[0] == rows))
    ]
    return Measured(
        temporaries=_temporaries(compiled.memory_analysis(), devices[0].platform, state),
        wire=dict(sorted(wire.items())),
        counts=dict(sorted(counts.items())),
        kept=tuple(found.loop_arrays()[:8]),
        repeated=tuple(dict.fromkeys(repeated)),
        kernels={name: count for name, count in found.custom_calls().items() if _KERNELS.match(name)},
    )


def _temporaries(sizes: Any, platform: str, state: float) -> float:
    """Returns the bytes of a compiled program beside the state, by its memory analysis.

    The peak of an accelerator's program counts arguments and code, and that results may lie where
    arguments were.
    """
    return sizes.temp_size_in_bytes if platform == "cpu" else max(0.0, sizes.peak_memory_in_bytes - state)


@contextmanager
def _planned_kernels(platform: Platform) -> Iterator[None]:
    """Replaces the fused attention, which no CPU can compile, by its stand-in. For GPUs, has JAX ask
    the platform whether cuDNN takes its heads, and not the first GPU of the process, of which there is
    none.
    """
    before = fused.library_attention, splash.library_attention, jax_cudnn.check_compute_capability
    if platform.name == "cpu":
        fused.library_attention, splash.library_attention = fused_attention_stand_in, splash_attention_stand_in
    if platform.capability is not None:
        jax_cudnn.check_compute_capability = lambda least: platform.capability >= _version(least)
    try:
        yield
    finally:
        fused.library_attention, splash.library_attention, jax_cudnn.check_compute_capability = before


def _version(text: str) -> tuple[int, ...]:
    """Returns the numbers of a version, as of "9.0"."""
    return tuple(map(int, text.split(".")))


def warnings(config: ResolvedConfig, mesh: Mesh, measured: Measured) -> list[str]:
    """Returns what is likely to be wrong with a config on a mesh."""
    found = undivided_dimensions(config, mesh)
    if measured.repeated:
        found.append("every device computes products of all rows of the batch: " + ", ".join(measured.repeated))
    setting = config.objective.chunk_tokens
    chunk, rows = chunk_tokens(setting, config.model.vocab_size), config.data.batch_size // data_parallel_size(mesh)
    here = rows * config.data.sequence_length // accumulation_parts(config, data_parallel_size(mesh))
    if 0 < min(chunk or here, here) < SMALLEST_CHUNK:
        found.append(
            f"the loss works on {min(chunk or here, here)} tokens of a device at a time; below {SMALLEST_CHUNK} the "
            "products of the head are too small for an accelerator"
        )
    return found


def candidates(config: ResolvedConfig, plan: ResourcePlan) -> Iterator[Change]:
    """Yields changes of a config, from those that cost least to those that cost most.

    Smaller parts of a batch cost nothing but small products, recomputation a third of the compute,
    and more devices along fsdp the gathering of weights.
    """
    rows = config.data.batch_size // (math.prod(plan.mesh[axis] for axis in BATCH_AXES) * plan.parts)
    smaller = [size for size in (rows // 2, rows // 4, rows // 8, 1) if size >= 1]
    parts: list[Change] = [
        {"training.accumulation_steps": configs.AUTO, "training.microbatch_size": size}
        for size in dict.fromkeys(smaller)
        if size < rows
    ]
    remat: list[Change] = [{"model.remat": "full"}] if config.model.remat != "full" else []
    spread: list[Change] = []
    data, fsdp = plan.mesh["data"], plan.mesh["fsdp"]
    while data % 2 == 0:
        data, fsdp = data // 2, fsdp * 2
        spread.append({"mesh.data": -1, "mesh.fsdp": fsdp})
    least = parts[-1:] or [{}]
    yield from parts
    yield from remat
    yield from spread
    for change in spread or [{}]:
        for more in remat or [{}]:
            yield change | more | least[0]


def suggest(
    config: ResolvedConfig, plan: ResourcePlan, make: Callable[[ResolvedConfig], ResourcePlan]
) -> tuple[Change, ResourcePlan] | None:
    """Returns the first change with which a run fits, and its plan; None if none does.

    Args:
        config: the resolved config.
        plan: its plan, which does not fit.
        make: resolved config -> plan.
    """
    tried: list[Change] = []
    for change in candidates(config, plan):
        if not change or change in tried:
            continue
        tried.append(change)
        try:
            changed = make(configs.resolve(configs.override(config, change)))
        except ConfigError:
            continue
        if changed.fits:
            return change, changed
    return None
