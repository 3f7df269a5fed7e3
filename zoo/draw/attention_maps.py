"""Attention maps: which token reads which, in every head, trained and at initial values side by
side.
"""

from pathlib import Path

from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from zoo.draw.run_activations import Read, chosen
from zoo.draw.style import figure, save
from zoo.errors import ConfigError
from zoo.training.trained_run import INITIAL, TRAINED

COLUMNS = 4
# The root of a probability: among 30 tokens, what one gets on average would else be white.
SCALE = PowerNorm(0.5, vmin=0, vmax=1)


def pages(read: Read, layers: str = "", heads: str = "") -> dict[str, Figure]:
    """A page for each layer and kind of attention, by the name of its file.

    Args:
        read: from `zoo.draw.run_activations`.
        layers, heads: numbers with commas between; all where empty.

    Raises:
        ConfigError: no attention probabilities, or no such layer or head.
    """
    found = {}
    for side, inside in read.inside[TRAINED].items():
        for part, maps in inside.probabilities.items():
            for layer in chosen(layers, len(maps), "layer"):
                if maps[layer] is None:
                    continue
                pair = {name: read.inside[name][side].probabilities[part][layer][0] for name in (TRAINED, INITIAL)}
                keys = read.labels["encoder" if part == "cross_attention" else side]
                title = " ".join(filter(None, (side, part.replace("_", "-"), f"layer {layer}")))
                name = "-".join(
                    filter(None, ("attention", side, "cross" if part == "cross_attention" else "", f"layer{layer}"))
                )
                found[name] = _page(pair, read.labels[side], keys, chosen(heads, len(pair[TRAINED]), "head"), title)
    if not found:
        raise ConfigError("no layer of this run computes attention probabilities")
    return found


def _page(pair, queries: list[str], keys: list[str], heads, title: str) -> Figure:
    """Two maps for every head, next to each other."""
    columns = min(COLUMNS, len(heads))
    rows = -(-len(heads) // columns)
    longest = max(map(len, (*queries, *keys)))
    side = max(1.6, 0.11 * max(len(queries), len(keys)))
    page, panels = figure(
        columns * 2 * side + 0.09 * longest + 1.0, rows * (side + 0.25) + 0.09 * longest + 0.5, rows, 2 * columns
    )
    names = len(keys) <= 60
    shown = None
    for panel, axes in enumerate(panels):
        row, place = divmod(panel, 2 * columns)
        number, which = row * columns + place // 2, (TRAINED, INITIAL)[place % 2]
        if number >= len(heads):
            axes.set_axis_off()
            continue
        shown = axes.imshow(pair[which][heads[number]], cmap="Blues", norm=SCALE, aspect="auto")
        axes.set_title(f"head {heads[number]}\n{which}", fontsize=7)
        below = (row + 1) * columns + place // 2 >= len(heads)
        axes.set_xticks(range(len(keys)), keys if names and below else [], rotation=90, fontsize=5, parse_math=False)
        axes.set_yticks(range(len(queries)), queries if names and place == 0 else [], fontsize=5, parse_math=False)
        axes.tick_params(length=0)
        for edge in axes.spines.values():
            edge.set_visible(True)
            edge.set_color("0.8")
    page.suptitle(f"{title}: each row is a token that reads, each column one that is read", fontsize=9)
    bar = page.colorbar(shown, ax=panels, shrink=0.6, pad=0.01, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=6)
    return page


def draw(read: Read, out: Path, kinds, layers: str = "", heads: str = "") -> list[Path]:
    """Writes every page."""
    return [save(page, out / f"{name}.{kind}") for name, page in pages(read, layers, heads).items() for kind in kinds]
