"""Gradient norms and the residual stream by depth, of runs, or of a config with pre- and post-norm."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_collections
import numpy as np
from matplotlib.figure import Figure

from zoo import config as configs
from zoo.draw.recorded_dynamics import recorded_dynamics
from zoo.draw.style import COLOURS, figure
from zoo.errors import ConfigError
from zoo.training.trainer import run

LAYER = re.compile(r"(?:(encoder|decoder) )?layer (\d+)( attention| cross-attention| feed-forward)?")
STATISTICS = {"gradient_norm": "norm of the gradient", "residual_rms": "RMS of the residual stream"}
PLACEMENTS = ("pre", "post")


class Profile(NamedTuple):
    """The statistics of one update in dynamics.jsonl, layer by layer from the first.

    Attributes:
        name: the run, the side of an encoder-decoder, and the update.
        step: number of the update.
        values: {name of a statistic: [L]}; the gradient norm of a layer is that of its attention and
            feed-forward parameters together, without norms.
    """

    name: str
    step: int
    values: dict[str, np.ndarray]


def profiles(folder: Path, name: str) -> list[Profile]:
    """Returns the first and the last recorded update of a run, for each side.

    Raises:
        ConfigError: nothing was recorded.
        DataError: the file is damaged.
    """
    records = recorded_dynamics(folder, "gradient_norm")
    if not records:
        raise ConfigError(f"{folder / 'dynamics.jsonl'} has no gradient norms")
    wanted = {record["step"]: record for record in (records[0], records[-1])}
    found = [profile for record in wanted.values() for profile in _sides(record, name)]
    if not found:
        raise ConfigError(f"{folder / 'dynamics.jsonl'} has no gradient norms of layers")
    return found


def _sides(record: Mapping[str, Any], name: str) -> list[Profile]:
    squares: dict[str, dict[str, dict[int, float]]] = {}
    for statistic in STATISTICS:
        for label, value in record.get(statistic, {}).items():
            if (match := LAYER.fullmatch(label)) and value is not None:
                layers = squares.setdefault(match[1] or "", {}).setdefault(statistic, {})
                layers[int(match[2])] = layers.get(int(match[2]), 0.0) + value**2
    return [
        Profile(
            " ".join(filter(None, (name, side))),
            record["step"],
            {what: np.sqrt([layers[index] for index in sorted(layers)]) for what, layers in values.items()},
        )
        for side, values in squares.items()
    ]


def at_the_start(config: ml_collections.ConfigDict) -> list[Profile]:
    """Returns what the first update of a config records with pre-norm and with post-norm.

    Raises:
        ConfigError: the config cannot be trained with both placements.
    """
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for placement in PLACEMENTS:
            changes = {"model.norm.placement": placement, "training.steps": 1, "training.dynamics_every": 1}
            # Nothing but the update counts, and one has no room for a warm-up.
            changes |= {"training.eval_every": 1, "training.eval_batches": 1, "schedule.warmup_steps": 0}
            one = configs.override(config, changes)
            run(one, Path(folder) / placement, lambda line: None)
            found += profiles(Path(folder) / placement, f"{placement}-norm")
    return found


def page(found: Sequence[Profile], source: str) -> Figure:
    """Draws a panel for each statistic, with a line for each profile; later updates are dashed."""
    drawn, panels = figure(10.2, 3.8, columns=len(STATISTICS))
    names = list(dict.fromkeys(profile.name for profile in found))
    first = {name: min(profile.step for profile in found if profile.name == name) for name in names}
    for axes, (statistic, title) in zip(panels, STATISTICS.items(), strict=True):
        for profile in found:
            values = profile.values.get(statistic)
            if values is None:
                continue
            colour = COLOURS[names.index(profile.name) % len(COLOURS)]
            style = "o-" if profile.step == first[profile.name] else "s--"
            label = f"{profile.name}, update {profile.step:,}"
            axes.plot(range(len(values)), values, style, color=colour, markersize=4, linewidth=1.3, label=label)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.set(xlabel="layer", title=title)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.25)
    panels[0].legend(frameon=False, fontsize=7)
    drawn.suptitle(source, fontsize=8, parse_math=False)
    return drawn
