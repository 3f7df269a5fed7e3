"""Statistics of training by layer and by block of parameters, and spikes of the loss."""

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.models.functional import Params
from zoo.training.records.metrics_file import filter_json_lines

UpdateStatistics = dict[str, dict[str, Float[Array, ""]]]
"""{name of a statistic: {label, such as "layer 0": value}}."""

SIDES = ("", "encoder", "decoder", "forward", "backward", "generator")
SUBLAYERS = {"attention": " attention", "cross_attention": " cross-attention", "ffn": " feed-forward"}
BEFORE_LAYERS = (
    "embedding",
    "source_embedding",
    "characters",
    "position",
    "segments",
    "embedding_norm",
    "embedding_projection",
)

SPIKE_WINDOW, SPIKE_SIGMAS = 128, 6.0


def update_statistics(
    module: nnx.Module, record: dict[str, Any], params: Params, gradient: Params, updates: Params
) -> UpdateStatistics:
    """Returns all statistics of one update, in display order; docs/dynamics.md has the formulas.

    Args:
        module: the abstract model.
        record: sums over the batch, filled by the layers (`zoo.layers.activation_record`).
        params: parameters before the update.
        gradient: gradient of the whole batch, before clipping.
        updates: what the update adds to `params`.
    """
    found = activation_statistics(record)
    weights, steps = block_norms(module, params), block_norms(module, updates)
    # A block that is zero, as biases are at first, has no ratio.
    found["update_ratio"] = {
        label: jnp.where(weights[label] > 0, steps[label] / weights[label], jnp.nan) for label in weights
    }
    return found | {"gradient_norm": block_norms(module, gradient)}


def activation_statistics(record: dict[str, Any]) -> UpdateStatistics:
    """Returns the statistics of a forward pass: "residual_rms", "attention_entropy", "expert_load",
    "router_entropy", "dropped_assignments", "unchosen_tokens", "dead_units" and "logit_scale", those
    that there are.

    Args:
        record: as of `update_statistics`.
    """
    found: UpdateStatistics = {}
    for side in ("", "encoder", "decoder"):
        _add_layer_statistics(found, record.get(side, {}) if side else record, f"{side} " if side else "")
    if "logits" in record:
        found["logit_scale"] = {"head": _root_mean(record["logits"])}
    return found


def _root_mean(sums: dict[str, Array]) -> Float[Array, ""]:
    return jnp.sqrt(sums["total"] / sums["count"])


def _add_layer_statistics(found: UpdateStatistics, record: dict[str, Any], side: str) -> None:
    """Adds the statistics that the layers of one stack recorded to `found`."""
    if "embedding" not in record:
        return
    residual = found.setdefault("residual_rms", {})
    residual[f"{side}embedding"] = _root_mean(record["embedding"])
    for index in range(sum(name.startswith("layer ") for name in record)):
        layer, label = record[f"layer {index}"], f"{side}layer {index}"
        residual[label] = _root_mean(layer["residual"])
        for part in ("attention", "cross_attention"):
            if part in layer:
                entropies = layer[part]["total"] / layer[part]["count"]
                where = label if part == "attention" else f"{label}{SUBLAYERS[part]}"
                rows = found.setdefault("attention_entropy", {})
                rows |= {f"{where} head {head}": value for head, value in enumerate(entropies)}
        if "experts" in layer:
            _add_expert_statistics(found, layer["experts"], label)
        if "fired" in layer:
            found.setdefault("dead_units", {})[label] = jnp.mean(layer["fired"] == 0)


def _add_expert_statistics(found: UpdateStatistics, record: dict[str, Any], label: str) -> None:
    """Adds what a mixture of experts recorded: loads, the router's entropy, and the share of what is
    dropped: of assignments where tokens choose, of tokens where experts do.
    """
    loads = record["sent"] / jnp.where(record["sent"].any(), record["sent"].mean(), 1)
    found.setdefault("expert_load", {}).update({f"{label} expert {expert}": load for expert, load in enumerate(loads)})
    shares = {"router_entropy": "entropy", "dropped_assignments": "dropped", "unchosen_tokens": "unchosen"}
    for name, key in shares.items():
        if key in record:
            found.setdefault(name, {})[label] = record[key]["total"] / jnp.maximum(record[key]["count"], 1)


def block_norms(module: nnx.Module, values: Params) -> dict[str, Float[Array, ""]]:
    """Returns the Euclidean norm of each block's values: embeddings, layers by depth, head.

    Args:
        module: the abstract model.
        values: nested like its parameters.
    """
    totals: dict[tuple, tuple[str, Array]] = {}
    for path, variable in nnx.state(module, nnx.Param).flat_state():
        path, value = tuple(map(str, path)), values
        for name in path:
            value = value[name]
        stacked = variable.get_metadata("axes")[:1] == ("layers",)
        layers = variable.get_metadata("layers") if stacked else (None,)
        squares = jnp.square(value.astype(jnp.float32)).reshape(len(layers), -1).sum(axis=1)
        for layer, total in zip(layers, squares, strict=True):
            label, order = block_label(path, layer, variable.get_metadata("layer_kind") if stacked else None)
            totals[order] = label, totals[order][1] + total if order in totals else total
    return {label: jnp.sqrt(total) for _, (label, total) in sorted(totals.items(), key=lambda item: item[0])}


def block_label(path: tuple[str, ...], layer: int | None = None, kind: str | None = None) -> tuple[str, tuple]:
    """Returns (label of the block that a parameter belongs to, sort key of the block).

    Args:
        path: path of the parameter.
        layer: number of its layer, or None outside the layers.
        kind: name of its layer's kind, where layers of different kinds are stored separately.
    """
    side = path[0] if path[0] in SIDES else ""
    before = f"{side} " if side else ""
    if layer is None:
        name = path[1] if side else path[0]
        first = name in BEFORE_LAYERS
        label = before + ("positions" if name == "position" else name.replace("_", " "))
        # Encoder and decoder come after their shared embeddings and before the head.
        return label, ((0 if first else 2) if not side else 1, SIDES.index(side), 0 if first else 2, 0, label)
    name = path[path.index("layers") + (2 if kind else 1)]
    part = SUBLAYERS.get(name, " norms" if name.endswith("_norm") else "")
    label = f"{before}layer {layer}{part}"
    return label, (1, SIDES.index(side), 1, layer, label)


class DynamicsStep:
    """A jitted function that returns each statistic as one array.

    Args:
        compute: the function to compile.
        options: arguments of `jax.jit`.
    """

    def __init__(self, compute: Callable[..., UpdateStatistics], **options: Any):
        self._labels: dict[str, tuple[str, ...]] = {}

        def stacked(*arguments: Any) -> dict[str, Array]:
            found = compute(*arguments)
            self._labels = {name: tuple(rows) for name, rows in found.items()}
            return {name: jnp.stack(list(rows.values())) for name, rows in found.items()}

        self._run = jax.jit(stacked, **options)

    def __call__(self, *arguments: Any) -> dict[str, Array]:
        """Returns the statistics, still on the device."""
        return self._run(*arguments)

    def fetch(self, arrays: dict[str, Array]) -> dict[str, dict[str, float]]:
        """Returns the result of a call as Python numbers, by name and label."""
        host = jax.device_get(arrays)
        return {name: dict(zip(labels, host[name].tolist(), strict=True)) for name, labels in self._labels.items()}


class DynamicsFile:
    """Writes `dynamics.jsonl`: {"step": n, statistic: {label: value}} for every recorded step.

    Args:
        path: the file; lines that an interrupted run wrote after `step` are removed.
        step: updates done before.
        every: steps between records, besides the first step; 0 for no records.
        losses: the last losses up to `step`, for `SpikeDetector`.
    """

    def __init__(self, path: Path, step: int, every: int, losses: Iterable[float] = ()):
        self.every, self._spikes = every, SpikeDetector(losses)
        filter_json_lines(path, lambda values: values["step"] <= step)
        self._file = path.open("a", encoding="utf-8") if every else None

    @property
    def losses(self) -> list[float]:
        """The last losses, which a checkpoint keeps for the resumed run."""
        return list(self._spikes.losses)

    def due(self, step: int) -> bool:
        """Returns whether the statistics of update number `step` are recorded."""
        return bool(self.every) and (step == 1 or step % self.every == 0)

    def write(self, step: int, loss: float, rows: dict[str, dict[str, float]]) -> None:
        """Writes the statistics of a step, if there are any, and a spike of the loss at any step.

        Args:
            step: number of the update; to be called for every one.
            loss: loss of the update.
            rows: statistics by name and label; empty where none are due.
        """
        if self._file is None:
            return
        spike = self._spikes.add(loss) if math.isfinite(loss) else None
        if spike is not None:
            rows = rows | {"spikes": {"loss": spike}}
        if rows:
            self._file.write(json.dumps({"step": step} | dict(_finite_or_none(rows)), allow_nan=False) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()


class SpikeDetector:
    """Detects losses far above the losses before them.

    A spike is more than `SPIKE_SIGMAS` standard deviations above the mean of the `SPIKE_WINDOW`
    losses before it.

    Args:
        losses: the last losses so far, oldest first.
    """

    def __init__(self, losses: Iterable[float] = ()):
        self.losses = deque(losses, maxlen=SPIKE_WINDOW)

    def add(self, loss: float) -> float | None:
        """Takes the next loss; returns its standard deviations above the mean if it is a spike."""
        before = list(self.losses)
        self.losses.append(loss)
        if len(before) < SPIKE_WINDOW:
            return None
        mean = math.fsum(before) / SPIKE_WINDOW
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in before) / SPIKE_WINDOW)
        above = (loss - mean) / deviation if deviation else 0.0
        return above if above > SPIKE_SIGMAS else None


def _finite_or_none(rows: dict[str, dict[str, float]]) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Yields (name, values) with None in place of NaN and infinities, which JSON cannot hold."""
    for name, values in rows.items():
        yield name, {label: value if math.isfinite(value) else None for label, value in values.items()}
