"""Statistics of how a training goes, layer by layer and block by block, and where its loss jumps."""

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

Statistics = dict[str, dict[str, Float[Array, ""]]]
"""By the name of a statistic, a number for each of its rows."""

SIDES = ("", "encoder", "decoder", "forward", "backward")
SUBLAYERS = {"attention": " attention", "cross_attention": " cross-attention", "ffn": " feed-forward"}
BEFORE_LAYERS = ("embedding", "source_embedding", "characters", "position", "segments", "embedding_norm")

WINDOW, SIGMAS = 128, 6.0


def statistics(
    module: nnx.Module, record: dict[str, Any], params: Params, gradient: Params, updates: Params
) -> Statistics:
    """Everything that is said of one update, in the order in which it is shown; docs/dynamics.md
    has the formulas.

    Args:
        module: the model, abstract.
        record: what `zoo.layers.activation_record` summed over the batch.
        params: before the update.
        gradient: of the whole batch, before it is clipped.
        updates: what the update adds to `params`.
    """
    found: Statistics = {}
    for side in ("", "encoder", "decoder"):
        _of_layers(found, record.get(side, {}) if side else record, f"{side} " if side else "")
    if "logits" in record:
        found["logit_scale"] = {"head": _root_of_mean(record["logits"])}
    weights, steps = norms(module, params), norms(module, updates)
    # Of a block that is zero, as biases are at first, there is no ratio.
    found["update_ratio"] = {
        label: jnp.where(weights[label] > 0, steps[label] / weights[label], jnp.nan) for label in weights
    }
    return found | {"gradient_norm": norms(module, gradient)}


def _root_of_mean(sums: dict[str, Array]) -> Float[Array, ""]:
    return jnp.sqrt(sums["total"] / sums["count"])


def _of_layers(found: Statistics, record: dict[str, Any], side: str) -> None:
    """Adds what the layers of one stack recorded."""
    if "embedding" not in record:
        return
    residual = found.setdefault("residual_rms", {})
    residual[f"{side}embedding"] = _root_of_mean(record["embedding"])
    for index in range(sum(name.startswith("layer ") for name in record)):
        layer, label = record[f"layer {index}"], f"{side}layer {index}"
        residual[label] = _root_of_mean(layer["residual"])
        for part in ("attention", "cross_attention"):
            if part in layer:
                entropies = layer[part]["total"] / layer[part]["count"]
                where = label if part == "attention" else f"{label}{SUBLAYERS[part]}"
                rows = found.setdefault("attention_entropy", {})
                rows |= {f"{where} head {head}": value for head, value in enumerate(entropies)}
        if "fired" in layer:
            found.setdefault("dead_units", {})[label] = jnp.mean(layer["fired"] == 0)


def norms(module: nnx.Module, values: Params) -> dict[str, Float[Array, ""]]:
    """The Euclidean norm of each block's values: embeddings first, then the layers by depth, then
    the head.

    Args:
        module: the model, abstract.
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
            label, order = block_of(path, layer, variable.get_metadata("layer_kind") if stacked else None)
            totals[order] = label, totals[order][1] + total if order in totals else total
    return {label: jnp.sqrt(total) for _, (label, total) in sorted(totals.items(), key=lambda item: item[0])}


def block_of(path: tuple[str, ...], layer: int | None = None, kind: str | None = None) -> tuple[str, tuple]:
    """(what people call the block that a parameter belongs to, what sorts blocks).

    Args:
        path: of the parameter.
        layer: number of its layer, where it is in one.
        kind: of its layer, where kinds have places of their own.
    """
    side = path[0] if path[0] in SIDES else ""
    before = f"{side} " if side else ""
    if layer is None:
        name = path[1] if side else path[0]
        first = name in BEFORE_LAYERS
        label = before + ("positions" if name == "position" else name.replace("_", " "))
        # Both sides come after what they share, and before the head.
        return label, ((0 if first else 2) if not side else 1, SIDES.index(side), 0 if first else 2, 0, label)
    name = path[path.index("layers") + (2 if kind else 1)]
    part = SUBLAYERS.get(name, " norms" if name.endswith("_norm") else "")
    label = f"{before}layer {layer}{part}"
    return label, (1, SIDES.index(side), 1, layer, label)


class DynamicsStep:
    """A jitted function of `Statistics`, whose numbers leave the device as one array for each
    statistic.

    Args:
        compute: what it computes.
        options: of `jax.jit`.
    """

    def __init__(self, compute: Callable[..., Statistics], **options: Any):
        self._labels: dict[str, tuple[str, ...]] = {}

        def stacked(*arguments: Any) -> dict[str, Array]:
            found = compute(*arguments)
            self._labels = {name: tuple(rows) for name, rows in found.items()}
            return {name: jnp.stack(list(rows.values())) for name, rows in found.items()}

        self._run = jax.jit(stacked, **options)

    def __call__(self, *arguments: Any) -> dict[str, Array]:
        """Returns the statistics, still on the device."""
        return self._run(*arguments)

    def rows(self, arrays: dict[str, Array]) -> dict[str, dict[str, float]]:
        """What a call returned, by name and label."""
        host = jax.device_get(arrays)
        return {name: dict(zip(labels, host[name].tolist(), strict=True)) for name, labels in self._labels.items()}


class DynamicsFile:
    """`dynamics.jsonl`: {"step": n, statistic: {row: number}} for every step at which something was
    recorded.

    Args:
        path: the file; what an interrupted run wrote after `step` is cut off.
        step: updates that the run continues from.
        every: steps between records, the first one beside; 0 for none.
        losses: those before `step`, for `Spikes`.
    """

    def __init__(self, path: Path, step: int, every: int, losses: Iterable[float] = ()):
        self.every, self._spikes = every, Spikes(losses)
        filter_json_lines(path, lambda values: values["step"] <= step)
        self._file = path.open("a", encoding="utf-8") if every else None

    @property
    def losses(self) -> list[float]:
        """What a run that goes on from here has to be given."""
        return list(self._spikes.losses)

    def due(self, step: int) -> bool:
        """Whether the statistics of an update are recorded, by its number."""
        return bool(self.every) and (step == 1 or step % self.every == 0)

    def write(self, step: int, loss: float, rows: dict[str, dict[str, float]]) -> None:
        """Takes the loss of every step, and the statistics of those that are due; a loss that jumps
        is recorded whenever it does.
        """
        if self._file is None:
            return
        spike = self._spikes.add(loss) if math.isfinite(loss) else None
        if spike is not None:
            rows = rows | {"spikes": {"loss": spike}}
        if rows:
            self._file.write(json.dumps({"step": step} | dict(finite(rows)), allow_nan=False) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()


class Spikes:
    """Tells when a loss is more than `SIGMAS` standard deviations above the mean of the `WINDOW`
    losses before it.

    Args:
        losses: the last ones of what came before, oldest first.
    """

    def __init__(self, losses: Iterable[float] = ()):
        self.losses = deque(losses, maxlen=WINDOW)

    def add(self, loss: float) -> float | None:
        """Takes the next loss; returns how many standard deviations it is above the mean if it is a
        spike, else None.
        """
        before = list(self.losses)
        self.losses.append(loss)
        if len(before) < WINDOW:
            return None
        mean = math.fsum(before) / WINDOW
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in before) / WINDOW)
        above = (loss - mean) / deviation if deviation else 0.0
        return above if above > SIGMAS else None


def finite(rows: dict[str, dict[str, float]]) -> Iterator[tuple[str, dict[str, float | None]]]:
    """The same with None for what JSON cannot hold."""
    for name, values in rows.items():
        yield name, {label: value if math.isfinite(value) else None for label, value in values.items()}
