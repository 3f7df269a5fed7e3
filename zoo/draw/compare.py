"""Two architectures side by side, part by part, with the differences marked."""

from collections.abc import Iterator
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from zoo.config import ResolvedConfig
from zoo.config.kinds import PLACEMENT_KINDS
from zoo.draw.style import figure
from zoo.models import cost
from zoo.nested import flatten

# The parts of a figure, with the beginnings of their paths in `model`; a field belongs to the
# first part that matches.
PARTS = {
    "embedding": ("vocab_size", "vocab_multiple", "embedding."),
    "positions": ("position.",),
    "layers": ("num_layers", "layers.", "parallel", "residual"),
    "norm": ("norm.",),
    "attention": ("attention.",),
    "feed-forward": ("ffn.",),
    "encoder": ("encoder.",),
    "decoder": ("decoder.",),
    "ELMo": ("elmo.",),
    "head": ("head.", "tie_embeddings"),
    "model": ("",),
}
# Fields that are always shown; others only if they differ.
ALWAYS = (
    "architecture",
    "dim",
    "vocab_size",
    "num_layers",
    "position.kind",
    "norm.placement",
    "norm.kind",
    "attention.num_heads",
    "attention.num_kv_heads",
    "attention.head_dim",
    "attention.window",
    "ffn.kind",
    "ffn.hidden_dim",
    "tie_embeddings",
)
ORDER = (
    "model",
    "embedding",
    "positions",
    "encoder",
    "decoder",
    "ELMo",
    "layers",
    "norm",
    "attention",
    "feed-forward",
    "head",
)
# Fields that say how a program runs or starts are not part of an architecture.
NO_PART = ("scan_layers", "remat", "dtype", "init.", "attention.implementation")
NOT_OF_ELMO = ("position.", "attention.", "ffn.", "norm.", "layers.")


class Line(NamedTuple):
    """A line of a box: "field = value", and whether the other config has another value."""

    text: str
    differs: bool


def lines(one: ResolvedConfig, other: ResolvedConfig) -> dict[str, tuple[list[Line], list[Line]]]:
    """Returns the lines of both configs by part; parts without lines are left out."""
    mine, theirs = (flatten(config.model) for config in (one, other))
    found: dict[str, tuple[list[Line], list[Line]]] = {part: ([], []) for part in ORDER}
    for path in dict.fromkeys((*mine, *theirs)):
        part = next(part for part, starts in PARTS.items() if path.startswith(starts))
        differs = mine.get(path) != theirs.get(path)
        if path.startswith(NO_PART) or not (differs or path in ALWAYS):
            continue
        for column, flat, config in ((0, mine, one), (1, theirs, other)):
            if path in flat and not (config.model.architecture == "elmo" and path.startswith(NOT_OF_ELMO)):
                name = path if part in ("model", "embedding", "layers") or "." not in path else path.split(".", 1)[1]
                found[part][column].append(Line(f"{name} = {_text(flat[path])}", differs))
    for column, config in enumerate((one, other)):
        found["layers"][column][:0] = [Line(text, False) for text in _equation(config)]
    same = found["layers"][0][:1] == found["layers"][1][:1]
    for column in range(2):
        if not same and found["layers"][column]:
            found["layers"][column][0] = found["layers"][column][0]._replace(differs=True)
    totals = [cost.summary(config).unpadded for config in (one, other)]
    for column, total in enumerate(totals):
        found["model"][column].append(Line(f"{total:,} parameters", totals[0] != totals[1]))
    return {part: columns for part, columns in found.items() if any(columns)}


def _equation(config: ResolvedConfig) -> Iterator[str]:
    """Yields the equation of a sublayer, from the block's docstring."""
    if config.model.architecture != "elmo":
        equation = PLACEMENT_KINDS.code_of(config.model.norm.placement).__doc__
        yield equation.split(" (")[0].split(", the weights")[0].strip()


def _text(value) -> str:
    text = ",".join(map(str, value)) or "none" if isinstance(value, tuple | list) else str(value)
    return text if len(text) <= 34 else text[:33] + "…"


def page(one: ResolvedConfig, other: ResolvedConfig, names: tuple[str, str]) -> Figure:
    """Draws two columns of boxes; differences are bold on a coloured background."""
    found = lines(one, other)
    heights = {part: max(len(column) for column in columns) for part, columns in found.items()}
    total = sum(heights.values()) + 1.6 * len(found) + 1.2
    drawn, (axes,) = figure(8.4, 0.19 * total + 0.2)
    axes.set(xlim=(0, 2.04), ylim=(total, 0))
    axes.set_axis_off()
    for column, name in enumerate(names):
        axes.text(
            0.5 + 1.04 * column, 0.5, name, ha="center", va="center", fontsize=10, weight="bold", parse_math=False
        )
    top = 1.2
    for part, columns in found.items():
        for column, each in enumerate(columns):
            left = 1.04 * column
            if not each:
                continue
            box = FancyBboxPatch(
                (left + 0.02, top + 0.15),
                0.96,
                heights[part] + 1.05,
                boxstyle="round,pad=0,rounding_size=0.015",
                mutation_aspect=total / 2.04 * 0.4,
                facecolor="#f5f6f8",
                edgecolor="#c5cad2",
                linewidth=0.8,
            )
            axes.add_patch(box)
            axes.text(left + 0.05, top + 0.7, part, va="center", fontsize=8, color="#2b6cb8", weight="bold")
            for row, line in enumerate(each):
                ground = {"facecolor": "#fde3c8", "edgecolor": "none", "pad": 1.2} if line.differs else None
                axes.text(
                    left + 0.07,
                    top + 1.6 + row,
                    line.text,
                    va="center",
                    fontsize=7.5,
                    family="monospace",
                    bbox=ground,
                    weight="bold" if line.differs else "normal",
                    parse_math=False,
                )
        top += heights[part] + 1.6
    return drawn
