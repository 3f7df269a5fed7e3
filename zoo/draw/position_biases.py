"""Biases that are added to attention scores by distance: ALiBi's lines and T5's learned biases."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
from flax import nnx
from matplotlib.figure import Figure

from zoo.config import ResolvedConfig, default, override, resolve, side
from zoo.draw.style import depth_colours, figure
from zoo.errors import ConfigError
from zoo.layers.position import Position
from zoo.layers.position.relative import Alibi, RelativeBias
from zoo.models.functional import split
from zoo.training.trained_run import TRAINED, TrainedRun, load_trained, trained_and_initial


def bias_by_distance(position: Position, span: int, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns the distances of a key from the query, and the bias of each head [H, distances].

    The distances go from -span to 0 for a causal model, and otherwise to span.
    """
    distances = np.arange(-span, 1 if causal else span + 1)
    added = position.score_bias(jnp.zeros(0), jnp.array([[span]]), jnp.asarray(span + distances)[None])
    return distances, np.asarray(added, np.float32)[0, :, 0]


def make_alibi(heads: int) -> Position:
    """Returns the ALiBi of a decoder with this number of heads."""
    changes = {"model.position.kind": "alibi", "model.attention.num_heads": heads, "model.dim": 8 * heads}
    return Alibi(resolve(override(default(), changes)).model)


def learned_biases(run: TrainedRun, config: ResolvedConfig, where: str, params) -> dict[str, Position]:
    """Returns the learned biases of a run with these parameters: one for all layers, or one each.

    Raises:
        ConfigError: the layers are of several kinds, which have no common bias.
    """
    tower = params[where] if where else params
    if config.position.shared:
        return {"all layers": _with(config, tower["position"]["table"])}
    values = tower["stack"]["layers"]
    if "attention" not in values:
        raise ConfigError("layers of several kinds have no common bias to draw")
    return {
        f"layer {number}": _with(config, each) for number, each in enumerate(values["attention"]["position"]["table"])
    }


def _with(config: ResolvedConfig, table) -> Position:
    module = RelativeBias(config)
    return nnx.merge(split(module)[0], {"table": jnp.asarray(table)}, {})


def load_biases(folder: Path, span: int, step: str = "latest") -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Returns {panel: {TRAINED or INITIAL: (distances, biases)}} of a run.

    ALiBi is not trained and has only `TRAINED`.

    Raises:
        ConfigError: the run adds nothing to scores by distance.
    """
    run = load_trained(folder, step)
    model = run.config.model
    found: dict = {}
    for where in ("encoder", "decoder") if model.architecture == "encoder_decoder" else ("",):
        config = side(model, where) if where else model
        causal, before = config.architecture == "decoder", f"{where} " if where else ""
        if config.position.kind == "alibi":
            found[f"{before}ALiBi"] = {TRAINED: bias_by_distance(Alibi(config), span, causal)}
        elif config.position.kind == "relative_bias":
            for which, (params, _) in trained_and_initial(run).items():
                for name, position in learned_biases(run, config, where, params).items():
                    found.setdefault(f"{before}bias of {name}", {})[which] = bias_by_distance(position, span, causal)
    if not found:
        raise ConfigError(
            f"{folder}: model.position.kind={model.position.kind} adds nothing to scores by distance; alibi and "
            "relative_bias do"
        )
    return found


def page(found: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]) -> Figure:
    """Draws a row for each table, trained next to initial, with a line for each head."""
    columns = max(map(len, found.values()))
    drawn, panels = figure(4 * columns + 1, 2.8 * len(found), len(found), columns)
    for start, (name, pair) in zip(range(0, len(panels), columns), found.items(), strict=True):
        row = panels[start : start + columns]
        for axes, (which, (distances, added)) in zip(row, pair.items(), strict=False):
            for colour, (head, values) in zip(depth_colours(len(added)), enumerate(added), strict=True):
                axes.plot(distances, values, color=colour, linewidth=1.1, label=f"head {head}")
            axes.set(
                xlabel="position of the key - position of the query",
                title=f"{name}, {which}" if len(pair) > 1 else name,
            )
            axes.grid(alpha=0.25)
        row[0].set_ylabel("added to the score")
        for axes in row[len(pair) :]:
            axes.set_axis_off()
        row[len(pair) - 1].legend(frameon=False, fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    return drawn


def alibi_page(heads: int, span: int) -> Figure:
    """Draws ALiBi's lines."""
    return page({f"ALiBi, {heads} heads": {TRAINED: bias_by_distance(make_alibi(heads), span, causal=True)}})
