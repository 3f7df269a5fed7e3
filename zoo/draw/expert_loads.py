"""The load of every expert of a run, the entropy of its routers, and what they dropped, from
dynamics.jsonl.
"""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from zoo.draw.recorded_dynamics import recorded_dynamics
from zoo.draw.style import depth_colours, figure
from zoo.errors import ConfigError

EXPERT = re.compile(r"(.*layer \d+) expert (\d+)")
DROPPED = {"dropped_assignments": "assignments dropped", "unchosen_tokens": "tokens that no expert takes"}


class Loads(NamedTuple):
    """Loads and entropies that a run recorded.

    Attributes:
        steps: [S], numbers of the updates.
        loads: of each layer [S, E], by its label: tokens of an expert over the mean of the layer.
        entropies: of each layer [S], in nats.
        dropped: of each layer [S], the share of assignments that found no room, or where experts
            choose, of tokens that none takes.
        what_is_dropped: of what these are shares.
    """

    steps: np.ndarray
    loads: dict[str, np.ndarray]
    entropies: dict[str, np.ndarray]
    dropped: dict[str, np.ndarray]
    what_is_dropped: str


def read_loads(folder: Path) -> Loads:
    """Reads what the experts of a run recorded.

    Raises:
        ConfigError: nothing was recorded, or the run has no experts.
        DataError: the file is damaged.
    """
    records = recorded_dynamics(folder, "expert_load")
    if not records:
        raise ConfigError(f"{folder / 'dynamics.jsonl'} has no loads of experts; draw a run with model.ffn.kind=moe")
    layers: dict[str, list[str]] = {}
    for label in records[0]["expert_load"]:
        if match := EXPERT.fullmatch(label):
            layers.setdefault(match[1], []).append(label)
    loads = {
        layer: np.array([[record["expert_load"][label] for label in labels] for record in records], float)
        for layer, labels in layers.items()
    }
    # Tokens may choose in some kinds of layers, and experts in others.
    kinds = {layer: next(name for name in DROPPED if layer in records[0].get(name, {})) for layer in layers}
    entropies, dropped = (
        {layer: np.array([record[name][layer] for record in records], float) for layer, name in named.items()}
        for named in (dict.fromkeys(layers, "router_entropy"), kinds)
    )
    what = " or ".join(DROPPED[name] for name in dict.fromkeys(kinds.values()))
    return Loads(np.array([record["step"] for record in records]), loads, entropies, dropped, what)


def page(found: Loads, name: str) -> Figure:
    """Draws the loads at the last recorded update as a map of layers and experts, and by update the
    largest load of each layer, the entropy of each router, and the share that each dropped, if any
    was.
    """
    drops = any(share.any() for share in found.dropped.values())
    drawn, (last, largest, entropy, *rest) = figure(10.2 + 3.4 * drops, 3.2, columns=3 + drops)
    layers, colours = list(found.loads), depth_colours(len(found.loads))
    # Kinds of layers may have different numbers of experts.
    most = max(loads.shape[1] for loads in found.loads.values())
    grid = np.full((len(layers), most), np.nan)
    for row, loads in enumerate(found.loads.values()):
        grid[row, : loads.shape[1]] = loads[-1]
    image = last.imshow(grid, aspect="auto", cmap="viridis", vmin=0, interpolation="nearest")
    last.set(xlabel="expert", title=f"load at update {found.steps[-1]:,}, 1 = mean")
    last.set_yticks(range(len(layers)), layers)
    drawn.colorbar(image, ax=last)
    for layer, colour in zip(layers, colours, strict=True):
        largest.plot(found.steps, found.loads[layer].max(axis=1), color=colour, linewidth=1.3, label=layer)
        entropy.plot(found.steps, found.entropies[layer], color=colour, linewidth=1.3, label=layer)
        for axes in rest:
            axes.plot(found.steps, found.dropped[layer], color=colour, linewidth=1.3, label=layer)
    largest.set(xlabel="update", title="largest load of a layer")
    for number in {loads.shape[1] for loads in found.loads.values()}:
        entropy.axhline(np.log(number), color="0.6", linewidth=0.8, linestyle=":")
    entropy.set(xlabel="update", title="entropy of the router, nats (dotted: uniform)")
    for axes in rest:
        axes.set(xlabel="update", title=f"share of {found.what_is_dropped}", ylim=(0, None))
    for axes in (largest, entropy, *rest):
        axes.grid(alpha=0.25)
    largest.legend(frameon=False, fontsize=7)
    drawn.suptitle(name, fontsize=8, parse_math=False)
    return drawn
