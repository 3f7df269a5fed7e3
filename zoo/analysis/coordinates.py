"""Coordinate check: the size of activations over the first updates of models of several widths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from zoo import config as configs
from zoo import data
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten
from zoo.objectives import make_objective
from zoo.objectives.objective import ForwardMode
from zoo.training.dynamics import activation_statistics
from zoo.training.mesh import make_mesh
from zoo.training.startup import resolve_with_vocabulary
from zoo.training.state import State
from zoo.training.step import fast_compilation, make_program
from zoo.training.update import Batch, Constants

# What grows with the width where it is set; `auto` values follow by themselves.
HEADS = tuple(f"model.attention.{name}" for name in ("num_heads", "num_kv_heads", "num_query_heads"))


@dataclass(frozen=True)
class Coordinates:
    """Sizes of activations by width.

    Attributes:
        widths: W values of `model.dim`.
        sizes: by activation ("embedding", "layer 0", ..., "logits"), before the first update and
            after each: the root mean square of the residual stream over the batch, and the standard
            deviation of the logits of a token.
    """

    widths: tuple[int, ...]
    sizes: Mapping[str, Float[np.ndarray, "S+1 W"]]

    def slopes(self, step: int) -> dict[str, float]:
        """Returns the slope of log(size) against log(width) after a number of updates: 0 for an
        activation that stays, 1 for one that grows with the width.
        """
        logarithms = np.log(self.widths)
        return {name: float(np.polyfit(logarithms, np.log(rows[step]), 1)[0]) for name, rows in self.sizes.items()}


def at_width(config: Mapping[str, Any], width: int, base: int) -> dict[str, Any]:
    """Returns the changes that make a config as wide as `width`: more heads of the same width, or
    wider ones where the number of heads would not be whole, and a hidden layer in proportion.

    Args:
        config: not resolved.
        width: of the residual stream.
        base: `model.base_dim` where the parametrization needs one and the config has none.
    """
    flat = flatten(config)
    ratio = width / flat["model.dim"]
    changes = {"model.dim": width}
    if all(flat[path] == configs.AUTO or (flat[path] * ratio).is_integer() for path in HEADS):
        changes |= {path: int(flat[path] * ratio) for path in HEADS if flat[path] != configs.AUTO}
    if flat["model.ffn.hidden_dim"] != configs.AUTO:
        changes["model.ffn.hidden_dim"] = round(flat["model.ffn.hidden_dim"] * ratio)
    if flat["model.parametrization"] != "standard" and not flat["model.base_dim"]:
        changes["model.base_dim"] = base
    return changes


def coordinates(config: Mapping[str, Any], widths: Sequence[int], updates: int) -> Coordinates:
    """Trains a config at several widths on the same batches, from initial values of its seed.

    Args:
        config: not resolved.
        widths: two or more, as for `at_width`.
        updates: number of updates.

    Raises:
        ConfigError: it cannot be as wide, or has no residual stream of tokens.
    """
    if len(set(widths)) < 2:
        raise ConfigError(f"widths {','.join(map(str, widths))}: at least two different ones are compared")
    every = [_sizes(configs.override(config, at_width(config, width, min(widths))), updates) for width in widths]
    return Coordinates(tuple(widths), {name: np.stack([one[name] for one in every], axis=1) for name in every[0]})


def _sizes(config: Mapping[str, Any], updates: int) -> dict[str, list[float]]:
    """Returns the sizes of one model's activations, on the batch of each update."""
    resolved = resolve_with_vocabulary(config)
    if resolved.model.architecture not in ("decoder", "encoder"):
        raise ConfigError(f"model.architecture={resolved.model.architecture} has no single stack of layers")
    dataset, model = data.load(resolved), make_model(resolved)
    objective, mesh = make_objective(resolved, dataset.tokenizer), make_mesh(resolved, jax.devices()[:1])
    program = make_program(resolved, model, objective, mesh)
    graph, names = split(model)[0], list[str]()

    def sizes_and_update(state: State, batch: Batch, constants: Constants) -> tuple[dict[str, Array], State]:
        record: dict[str, Any] = {}
        objective.sums(graph, state["params"], state["stats"], batch, constants, ForwardMode(record=record))
        rows = activation_statistics(record)
        sizes = rows["residual_rms"] | {"logits": rows["logit_scale"]["head"]}
        # In the order of the layers; what a jitted function returns is sorted by name.
        names[:] = sizes
        return sizes, program.update(state, batch, constants, None)[0]

    step = jax.jit(sizes_and_update, compiler_options=fast_compilation(mesh))
    state, constants = program.initial_state(resolved.seed), program.constants(resolved.seed)
    found: dict[str, list[float]] = {}
    with dataset.training_batches() as batches:
        for _ in range(updates + 1):
            sizes, state = step(state, program.put_batch(next(batches)), constants)
            for name in names:
                found.setdefault(name, []).append(float(sizes[name]))
    return found
