"""Attention of one token, as lines from it to the keys, one colour for each head.

After figures 3 to 5 of Vaswani et al. 2017.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.draw.attention_maps import LETTER, LayerMaps, layer_maps
from zoo.draw.run_activations import RunActivations
from zoo.draw.style import PRINT_DPI, figure, save
from zoo.errors import ConfigError, did_you_mean, shown
from zoo.training.trained_run import INITIAL, TRAINED

STEP = 0.2
"""Inches from one token to the next."""
FAINTEST = 0.02
"""Probability below which no line is drawn, unless half of an equal share is less."""


def find_token(labels: Sequence[str], token: str) -> int | None:
    """Returns the last place of a token, or of the last of the tokens that together are this text;
    None if it is not there. An empty text is the last token that is not a special one.
    """
    if not token:
        return max((n for n, label in enumerate(labels) if label not in ("[begin]", "[end]")), default=None)
    for end in range(len(labels), 0, -1):
        joined = ""
        for start in range(end - 1, -1, -1):
            joined = labels[start] + joined
            if joined == token:
                return end - 1
            if len(joined) >= len(token):
                break
    return None


def pages(activations: RunActivations, token: str, layers: str = "", heads: str = "") -> Iterator[tuple[str, Figure]]:
    """Yields a page for each layer whose queries have the token, with the end of its file's name.

    Args:
        activations: from `zoo.draw.run_activations`.
        token: the query, as for `find_token`.
        layers, heads: indices separated by commas; all if empty.

    Raises:
        ConfigError: no side has the token, or as for `layer_maps`.
    """
    places = {name: find_token(labels, token) for name, labels in activations.labels.items()}
    if all(place is None for place in places.values()):
        labels = [label for every in activations.labels.values() for label in every]
        raise ConfigError(f"--token {shown(token)}: the text has no such token{did_you_mean(token, labels)}")
    for found in layer_maps(activations, layers, heads):
        place = find_token(found.queries, token)
        if place is not None:
            yield found.name, _page(found, place, activations.source)


def _page(found: LayerMaps, place: int, source: str) -> Figure:
    """Draws the trained lines above those at initial values."""
    length = max(len(found.queries), len(found.keys))
    label = LETTER * max(map(len, (*found.queries, *found.keys)))
    drawn, panels = figure(
        max(6.5, STEP * length + 0.4), 2 * (1.7 + 2 * label) + 1.1, 2, 1, gridspec_kw={"hspace": 0.02}
    )
    for axes, which in zip(panels, (TRAINED, INITIAL), strict=True):
        draw_lines(axes, found, place, which)
        axes.set_ylim(-0.1 - label / 1.2, 1.1 + label / 1.2)
        axes.set_title(which, fontsize=8)
    handles = [line for line in panels[0].lines if not line.get_label().startswith("_")]
    drawn.legend(
        handles, [line.get_label() for line in handles], loc="outside lower center", ncols=min(8, len(handles)),
        frameon=False, fontsize=7, handlelength=1.2,
    )  # fmt: skip
    title = f"{found.title}: what “{found.queries[place]}” (token {place}) attends to"
    drawn.suptitle(f"{source}\n{title}".strip(), fontsize=9, parse_math=False)
    return drawn


def draw_lines(axes: Axes, found: LayerMaps, place: int, which: str) -> None:
    """Draws the keys above, the queries below, and a line for each head and key, as wide and opaque
    as its probability is large.
    """
    colours = [colormaps["tab10" if len(found.heads) <= 10 else "turbo"](value) for value in _spread(len(found.heads))]
    for head, colour in zip(found.heads, colours, strict=True):
        weights = found.maps[which][head][place]
        axes.plot([], [], color=colour, linewidth=3, label=f"head {head}")
        faintest = min(FAINTEST, 0.5 / max(1, np.count_nonzero(weights)))
        for key, weight in enumerate(weights):
            if weight >= faintest:
                axes.plot(
                    (place, key), (0, 1), color=colour, linewidth=0.5 + 3 * weight, alpha=float(min(1, 0.15 + weight)),
                    solid_capstyle="round", label="_line",
                )  # fmt: skip
    total = np.sum([found.maps[which][head][place] for head in found.heads], axis=0) / len(found.heads)
    strong = total >= 2 / len(total)
    # Letters stand upright, words do not fit side by side.
    look = {"fontsize": 7.5, "ha": "center"}
    for number, text in enumerate(found.keys):
        look["rotation"] = 90 * (len(text) > 2)
        weight = {"weight": "bold"} if strong[number] else {"color": "0.35"}
        axes.text(number, 1.04, text, va="bottom", parse_math=False, **look, **weight)
    for number, text in enumerate(found.queries):
        look["rotation"] = 90 * (len(text) > 2)
        weight = {"weight": "bold", "color": "#d9480f"} if number == place else {"color": "0.6"}
        axes.text(number, -0.04, text, va="top", parse_math=False, **look, **weight)
    axes.set_xlim(-1, max(len(found.keys), len(found.queries)))
    axes.set_axis_off()


def _spread(count: int) -> Sequence[float] | Sequence[int]:
    return range(count) if count <= 10 else np.linspace(0.05, 0.95, count)


def draw(activations: RunActivations, out: Path, formats: Sequence[str], token: str, *which: str) -> list[Path]:
    """Writes every page in every format, and returns the paths; `which` are layers and heads."""
    return [
        save(page, out / f"query-{name}.{kind}", PRINT_DPI)
        for name, page in pages(activations, token, *which)
        for kind in formats
    ]
