"""Boxes, arrows and text on a page that is measured in inches."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, PathPatch
from matplotlib.path import Path

from zoo.draw.style import figure

# Light colours, by what a part is.
FILLS = {
    "embedding": "#fbe0df",
    "position": "#eee6f6",
    "norm": "#f9f2c8",
    "attention": "#fde3c8",
    "ffn": "#d9ebf7",
    "head": "#dedff3",
    "softmax": "#d9f0dc",
    "input": "#ffffff",
    "frame": "#f5f6f8",
}
EDGE, LINE, QUIET, MARK = "#8a919c", "#4a4f57", "#6b7280", "#d9480f"
LINE_HEIGHT = 0.145


class Canvas:
    """An empty page; its size is that of what is drawn, by `finish`.

    Attributes:
        has_marks: whether a marked box has been drawn.
    """

    def __init__(self) -> None:
        self.page, (self.axes,) = figure(1, 1)
        self.page.set_layout_engine("none")
        self.axes.set_position((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.has_marks = False

    def box(
        self,
        left: float,
        bottom: float,
        size: tuple[float, float],
        role: str,
        marked: bool = False,
        dashed: bool = False,
        behind: bool = False,
    ) -> None:
        """Draws a rounded rectangle.

        Args:
            left, bottom: its lower left corner.
            size: width and height.
            role: key of `FILLS`.
            marked: with an edge that stands out.
            dashed: with a dashed edge.
            behind: behind all lines.
        """
        patch = FancyBboxPatch(
            (left, bottom),
            *size,
            boxstyle=f"round,pad=0,rounding_size={min(0.06, 0.3 * min(size)):.3g}",
            facecolor=FILLS[role],
            edgecolor=MARK if marked else EDGE,
            linewidth=1.6 if marked else 0.8,
            linestyle=(0, (4, 2)) if dashed else "solid",
            zorder=0 if behind else 2,
        )
        self.has_marks |= marked
        patch.set_label(role)
        self.axes.add_patch(patch)

    def text(self, x: float, y: float, text: str, size: float = 7, **more) -> None:
        """Writes a text, centred unless `more` says otherwise."""
        look = {"ha": "center", "va": "center", "color": "#1f2328", "zorder": 4} | more
        self.axes.text(x, y, text, fontsize=size, parse_math=False, **look)

    def lines(self, x: float, top: float, lines: Sequence[tuple[str, str]]) -> None:
        """Writes centred lines downwards from `top`, each with its look: title, plain or quiet."""
        for row, (text, look) in enumerate(lines):
            y = top - (row + 0.5) * LINE_HEIGHT
            if look == "title":
                self.text(x, y, text, 8, weight="bold")
            else:
                self.text(x, y, text, 7, color=QUIET if look == "quiet" else "#1f2328")

    def line(self, *points: tuple[float, float], arrow: bool = False, dashed: bool = False) -> None:
        """Draws straight lines through points, at the end with a head if it is an arrow."""
        look = {"color": LINE, "linewidth": 1.0, "linestyle": (0, (4, 2)) if dashed else "solid", "zorder": 1}
        codes = [Path.MOVETO, *[Path.LINETO] * (len(points) - 1)]
        if arrow:
            patch = FancyArrowPatch(
                path=Path(points, codes), arrowstyle="-|>,head_length=3.2,head_width=1.8", shrinkA=0, shrinkB=0, **look
            )
        else:
            patch = PathPatch(Path(points, codes), fill=False, capstyle="butt", joinstyle="round", **look)
        self.axes.add_patch(patch)

    def plus(self, x: float, y: float, radius: float = 0.075) -> None:
        """Draws a sum: a circle with a cross."""
        self.axes.add_patch(Circle((x, y), radius, facecolor="white", edgecolor=LINE, linewidth=1.0, zorder=3))
        for ends in (((x - radius, y), (x + radius, y)), ((x, y - radius), (x, y + radius))):
            self.axes.plot(*zip(*ends, strict=True), color=LINE, linewidth=0.9, zorder=4, solid_capstyle="butt")

    def finish(self, left: float, bottom: float, right: float, top: float) -> Figure:
        """Cuts the page to these limits, in inches, and returns it."""
        self.axes.set(xlim=(left, right), ylim=(bottom, top))
        self.page.set_size_inches(right - left, top - bottom)
        return self.page
