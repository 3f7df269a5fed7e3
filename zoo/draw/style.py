"""Style of the figures, and writing them to files."""

import io
import re
import warnings
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.errors import ConfigError, not_writable
from zoo.files import write_atomic
from zoo.lab.report.figures import SETTINGS
from zoo.lab.results.curves import COLOURS

__all__ = [
    "COLOURS",
    "IMAGE_FORMATS",
    "PRINT_DPI",
    "depth_colours",
    "drawing",
    "figure",
    "image_format",
    "mosaic",
    "save",
]

PRINT_DPI = 220
IMAGE_FORMATS = ("png", "svg", "pdf")
# A figure that is drawn again has the same bytes: no dates, no random names inside an SVG.
FONTS = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "figure.titlesize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
}
# Text in an SVG is text: in the font that it was laid out with, in one of the same widths, or in any.
STEADY = {
    "svg.hashsalt": "zoo",
    "svg.fonttype": "none",
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "pdf.fonttype": 42,
}
WITHOUT_DATE = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def drawing() -> AbstractContextManager[None]:
    """Returns the context in which figures are drawn, with their fonts."""
    return rc_context(SETTINGS | FONTS)


def figure(width: float, height: float, rows: int = 1, columns: int = 1, **options) -> tuple[Figure, list[Axes]]:
    """Returns an empty page, in inches, and the list of its panels, row by row.

    Args:
        width, height: size of the page.
        rows, columns: numbers of panels.
        options: options for `Figure.subplots`.
    """
    with drawing():
        page = Figure(figsize=(width, height), layout="constrained")
        panels = page.subplots(rows, columns, squeeze=False, **options)
    return page, list(panels.ravel())


def mosaic(width: float, height: float, layout: list[list[str]]) -> tuple[Figure, dict[str, Axes]]:
    """Returns an empty page, in inches, and its panels by name; a panel covers the cells of the layout
    that have its name.
    """
    with drawing():
        page = Figure(figsize=(width, height), layout="constrained")
        return page, page.subplot_mosaic(layout)


def depth_colours(count: int) -> list[tuple[float, float, float, float]]:
    """Returns colours for ordered lines, light to dark."""
    from matplotlib import colormaps

    return [tuple(colour) for colour in colormaps["viridis_r"](np.linspace(0.12, 1, count))]


def image_format(path: Path) -> str:
    """Returns the image format of a path, by its suffix.

    Raises:
        ConfigError: the suffix is not one of `IMAGE_FORMATS`.
    """
    if path.suffix[1:] not in IMAGE_FORMATS:
        raise ConfigError(f"{path}: figures are written as .png, .svg or .pdf")
    return path.suffix[1:]


def save(page: Figure, path: Path, dpi: int = 110) -> Path:
    """Writes a page atomically, in the format of the suffix, and returns the path.

    Args:
        page: the figure.
        path: where to write it.
        dpi: dots per inch of a PNG, and of images inside other formats.

    Raises:
        ConfigError: the suffix is unknown, or the folder cannot be written.
    """
    kind = image_format(path)
    buffer = io.BytesIO()
    with rc_context(SETTINGS | STEADY), warnings.catch_warnings():
        # A character that the default font lacks is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph")
        page.savefig(buffer, format=kind, dpi=dpi, metadata=WITHOUT_DATE[kind])
    content = _compact(buffer.getvalue().decode()).encode() if kind == "svg" else buffer.getvalue()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
    except OSError as error:
        raise not_writable(path, error) from error
    return path


def _compact(svg: str) -> str:
    """Returns an SVG that looks the same in about half of the bytes.

    It has no metadata, comments and names of groups; coordinates of paths are rounded to a
    hundredth of a point; a style that occurs more than once is a class.
    """
    for useless in (r"\s*<metadata>.*?</metadata>", r"\s*<!--.*?-->", r' transform="rotate\(-?0 [^)]*\)"'):
        svg = re.sub(useless, "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r' d="([^"]*)"', _rounded, svg)
    counts = Counter(re.findall(r' style="([^"]*)"', svg))
    names = {style: f"s{number}" for number, (style, count) in enumerate(counts.most_common()) if count > 1}
    svg = re.sub(r' style="([^"]*)"', lambda m: f' class="{names[m[1]]}"' if m[1] in names else m[0], svg)
    rules = "".join(f".{name}{{{style}}}" for style, name in names.items())
    return re.sub(r"\n +", "\n", svg.replace("</style>", f"{rules}</style>", 1))


def _rounded(path: re.Match[str]) -> str:
    numbers = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), path[1])
    return f' d="{" ".join(numbers.split())}"'
