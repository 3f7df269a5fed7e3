"""The size of activations against width over the first updates, to check muP.

    zoo draw coordinates gpt2:tiny gpt2:tiny,model.parametrization=mup --widths 32,64,128

The coordinate check of Yang et al. 2022, beside `experiments/learning_rate_transfer.py` (claim V20).
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from zoo import config as configs
from zoo import data, plugin
from zoo.data import resolve_with_data
from zoo.draw.drawing import short_name
from zoo.draw.style import depth_colours, figure
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten
from zoo.objectives import make_objective
from zoo.objectives.objective import ForwardMode
from zoo.training.dynamics import activation_statistics
from zoo.training.mesh import make_mesh
from zoo.training.state import State
from zoo.training.step import fast_compilation, make_program
from zoo.training.update import Batch, Constants

# They grow with the width where they are set; `auto` values follow by themselves.
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
        raise ConfigError(f"widths {','.join(map(str, widths))}: give at least two different widths")
    every = [_sizes(configs.override(config, at_width(config, width, min(widths))), updates) for width in widths]
    return Coordinates(tuple(widths), {name: np.stack([one[name] for one in every], axis=1) for name in every[0]})


def _sizes(config: Mapping[str, Any], updates: int) -> dict[str, list[float]]:
    """Returns the sizes of one model's activations, on the batch of each update."""
    resolved = resolve_with_data(config)
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


def page(found: Sequence[Coordinates], titles: Sequence[str]) -> Figure:
    """Draws panels of the embedding, of the first and last layer and of the logits, on logarithmic
    scales; darker lines are later updates.
    """
    layers = [name for name in found[0].sizes if name.startswith("layer ")]
    names = list(dict.fromkeys(["embedding", layers[0], layers[-1], "logits"]))
    drawn, panels = figure(2.6 * len(names), 2.5 * len(found), len(found), len(names), sharex=True, sharey="col")
    for row, (one, title) in enumerate(zip(found, titles, strict=True)):
        for column, name in enumerate(names):
            axes, sizes = panels[row * len(names) + column], one.sizes[name]
            for update, (colour, values) in enumerate(zip(depth_colours(len(sizes)), sizes, strict=True)):
                axes.plot(one.widths, values, "o-", color=colour, markersize=3, linewidth=1.2, label=f"{update}")
            slope = one.slopes(len(sizes) - 1)[name]
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            low, high = _limits([other.sizes[name] for other in found])
            axes.set_ylim(low, high)
            axes.set_yticks(ticks := np.geomspace(low, high, 4)[1:-1], [f"{tick:.2g}" for tick in ticks])
            axes.set_xticks(one.widths, [str(width) for width in one.widths])
            axes.minorticks_off()
            axes.set_title(f"{name}, slope {slope:.2f}", fontsize=8)
            axes.grid(alpha=0.25)
        panels[row * len(names)].set_ylabel(title, fontsize=7, parse_math=False)
    for axes in panels[-len(names) :]:
        axes.set_xlabel("width D")
    panels[len(names) - 1].legend(frameon=False, fontsize=7, title="updates", title_fontsize=7)
    drawn.suptitle("root mean square of the residual stream, standard deviation of the logits", fontsize=8)
    return drawn


def _limits(sizes: Sequence[np.ndarray]) -> tuple[float, float]:
    """Returns the ends of an axis with all sizes, at least a factor of 4 apart, so that a flat line is
    seen to be flat.
    """
    low, high = min(map(np.min, sizes)), max(map(np.max, sizes))
    margin = max(1.1, 2 / (high / low) ** 0.5)
    return float(low / margin), float(high * margin)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the figure."""
    parser.add_argument("config", metavar="CONFIG", help="FILE[:ARGUMENT], a run's folder, or its config.json")
    parser.add_argument("others", metavar="CONFIG", nargs="*", help="others, drawn below it")
    parser.add_argument(
        "--widths", default="64,128,256", metavar="D,D", help="values of model.dim (default: %(default)s)"
    )
    parser.add_argument(
        "--updates", type=int, default=4, metavar="N", help="updates of each model (default: %(default)s)"
    )


def draw(args: argparse.Namespace) -> dict[str, Figure]:
    """Returns the figure, by the names of the configs."""
    if args.updates < 1:
        raise ConfigError(f"--updates {args.updates} must be at least 1")
    try:
        widths = [int(width) for width in args.widths.split(",")]
    except ValueError as error:
        raise ConfigError(f"--widths {args.widths}: expected whole numbers, separated by commas") from error
    specs = [args.config, *args.others]
    found = [coordinates(configs.load_with_plugins(spec), widths, args.updates) for spec in specs]
    return {"-".join(map(short_name, specs)): page(found, specs)}


plugin.register_drawing(
    "coordinates",
    plugin.Drawing("the size of activations against width over the first updates, to check muP", draw, add_options),
)
