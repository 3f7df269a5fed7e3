"""Architectures as block diagrams, one or two side by side."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from zoo.config import ResolvedConfig
from zoo.draw.diagrams.architecture_parts import Addition, Column, Parallel, Part, Repeat, columns, kinds_of, wrapped
from zoo.draw.diagrams.block_steps import Branch
from zoo.draw.diagrams.canvas import LINE_HEIGHT, QUIET, Canvas
from zoo.models import cost

WIDTH, GAP, MARGIN = 2.75, 0.17, 0.24
CHIP, CHIP_HEIGHT, COLUMN = 0.84, 0.2, 0.92
"""Width and height of a step of attention's inputs, and the distance of two columns of them."""
RESIDUAL = 0.18
"""Distance of the residual connection from the boxes."""


class ColumnDrawing:
    """Draws the steps of one column upwards, around a vertical line.

    Args:
        canvas: where to draw.
        x: place of the line.
        others: what the parts of the other architecture are (`kinds_of`); parts that are not among
            them are marked. None marks nothing.
        counts_right: the number of repetitions stands to the right of a block.
    """

    def __init__(self, canvas: Canvas, x: float, others: set | None, counts_right: bool = False):
        self.canvas, self.x, self.others, self.counts_right = canvas, x, others, counts_right
        self.memory_inputs: list[tuple[float, float]] = []

    def draw(self, column: Column) -> float:
        """Draws a column upwards from y = 0, and returns where it ends."""
        self.canvas.text(self.x, -0.1, column.source, 8, style="italic")
        return self._steps(column.steps, self.x, 0.0)

    def _steps(self, steps: Sequence[Any], x: float, y: float) -> float:
        for step in steps:
            draw = {Part: self._part, Addition: self._addition, Parallel: self._parallel, Repeat: self._repeat}
            y = draw.get(type(step), self._branch)(step, x, y)
        return y

    def _arrow(self, x: float, y: float, length: float = GAP) -> float:
        self.canvas.line((x, y), (x, y + length), arrow=True)
        return y + length

    def _marked(self, kind: tuple[str, ...] | str) -> bool:
        return self.others is not None and kind not in self.others

    def _part(self, part: Part, x: float, y: float) -> float:
        lines = [(line, "title") for line in wrapped((part.title,), 38)]
        lines += [(line, "plain") for line in wrapped(part.details)]
        lines += [(line, "quiet") for line in wrapped(part.sizes)]
        y = self._inputs(part, x, y) if part.inputs else self._arrow(x, y)
        height = LINE_HEIGHT * len(lines) + 0.1
        self.canvas.box(x - WIDTH / 2, y, (WIDTH, height), part.role, self._marked(part.kind))
        self.canvas.lines(x, y + height - 0.05, lines)
        return y + height

    def _inputs(self, part: Part, x: float, y: float) -> float:
        """Draws how what attention reads becomes queries, keys and values; returns where their
        arrows end.
        """
        columns = [x + (number - 1) * COLUMN for number in range(3)]
        split = y + 0.12
        if part.memory:
            self.memory_inputs.append((columns[0], split + 0.1))
            self.canvas.line((columns[0], split + 0.1), (columns[1], split + 0.1))
            self.canvas.line((x, y), (x, split - 0.02), (columns[2], split - 0.02), (columns[2], split + 0.1))
            split += 0.1
        else:
            self.canvas.line((x, y), (x, split))
            self.canvas.line((columns[0], split), (columns[2], split))
        rows = max(map(len, part.inputs))
        for column, steps in zip(columns, part.inputs, strict=True):
            level = split
            for number, step in enumerate(steps):
                level = self._arrow(column, level, 0.13)
                role = "attention" if number == 0 else "norm" if step == "RMSNorm" else "position"
                marked = number > 0 and self._marked(step)
                self.canvas.box(column - CHIP / 2, level, (CHIP, CHIP_HEIGHT), role, marked)
                self.canvas.text(column, level + CHIP_HEIGHT / 2, step, 6.5)
                level += CHIP_HEIGHT
            end = split + rows * (0.13 + CHIP_HEIGHT) + (CHIP_HEIGHT + 0.13) * part.cached
            self.canvas.line((column, level), (column, end + GAP), arrow=True)
        if part.cached:
            first = columns[0] if part.memory else columns[1]
            bottom = split + rows * (0.13 + CHIP_HEIGHT) + 0.1
            self.canvas.box(first - CHIP / 2, bottom, (COLUMN + CHIP, CHIP_HEIGHT), "input", dashed=True)
            self.canvas.text(first + COLUMN / 2, bottom + CHIP_HEIGHT / 2, "cache, when it generates", 6.5, color=QUIET)
        return end + GAP

    def _addition(self, step: Addition, x: float, y: float) -> float:
        part = step.part
        lines = [(part.title, "title"), *((line, "quiet") for line in part.sizes)]
        height, width = LINE_HEIGHT * len(lines) + 0.1, 1.5
        centre = y + GAP + height / 2
        right = x - 0.32
        self.canvas.box(right - width, centre - height / 2, (width, height), part.role, self._marked(part.kind))
        self.canvas.lines(right - width / 2, centre + height / 2 - 0.05, lines)
        self.canvas.line((right, centre), (x - 0.075, centre), arrow=True)
        self.canvas.line((x, y), (x, centre - 0.075), arrow=True)
        self.canvas.plus(x, centre)
        self.canvas.line((x, centre + 0.075), (x, centre + height / 2))
        return centre + height / 2

    def _branch(self, step: Branch, x: float, y: float) -> float:
        start = y + 0.1
        self.canvas.line((x, y), (x, start))
        end = self._steps(step.steps, x, start)
        if not step.residual:
            return end
        centre, side = end + GAP + 0.075, x + width_of(step.steps) / 2 + RESIDUAL
        self.canvas.line((x, end), (x, centre - 0.075), arrow=True)
        self.canvas.line((x, start), (side, start), (side, centre), (x + 0.075, centre), arrow=True)
        if step.label:
            self.canvas.text(side, centre + 0.08, step.label, 7, ha="right")
        self.canvas.plus(x, centre)
        return centre + 0.075

    def _parallel(self, step: Parallel, x: float, y: float) -> float:
        count = len(step.branches)
        places = [x + (number - (count - 1) / 2) * (WIDTH + 0.2) for number in range(count)]
        self.canvas.line((x, y), (x, y + 0.1))
        self.canvas.line((places[0], y + 0.1), (places[-1], y + 0.1))
        tops = [self._steps(branch, place, y + 0.1) for branch, place in zip(step.branches, places, strict=True)]
        centre = max(tops) + 0.2
        for place, top in zip(places, tops, strict=True):
            edge = x - 0.075 if place < x else x + 0.075
            self.canvas.line((place, top), (place, centre), (edge, centre), arrow=True)
        self.canvas.plus(x, centre)
        return centre + 0.075

    def _repeat(self, step: Repeat, x: float, y: float) -> float:
        bottom = y + 0.1
        self.canvas.line((x, y), (x, bottom))
        top = self._steps(step.steps, x, bottom) + 0.12
        self.canvas.line((x, top - 0.12), (x, top))
        width = width_of(step.steps)
        left, right = x - width / 2 - MARGIN, x + width / 2 + RESIDUAL + MARGIN / 2
        self.canvas.box(left, bottom, (right - left, top - bottom), "frame", behind=True)
        place, side = (right + 0.08, "left") if self.counts_right else (left - 0.08, "right")
        count, _, kinds = step.count.partition(" (")
        self.canvas.text(place, (bottom + top) / 2, count, 10, ha=side, weight="bold")
        for row, name in enumerate(kinds.rstrip(")").split(", ") if kinds else ()):
            self.canvas.text(place, (bottom + top) / 2 - 0.2 - 0.14 * row, name, 7, ha=side, color=QUIET)
        return top


def width_of(steps: Sequence[Any]) -> float:
    """Returns the width of nested steps, without residual connections."""
    widths = [WIDTH]
    for step in steps:
        if isinstance(step, Parallel):
            widths.append(len(step.branches) * (WIDTH + 0.2) - 0.2)
        elif isinstance(step, Branch | Repeat):
            widths.append(width_of(step.steps))
    return max(widths)


def page(configs: Sequence[ResolvedConfig], names: Sequence[str]) -> Figure:
    """Draws one architecture, or two next to each other with the parts marked in which they differ
    other than in size.
    """
    canvas, described = Canvas(), [columns(config) for config in configs]
    kinds = [kinds_of(each) for each in described]
    right, tops, heads = 0.0, [], []
    for number, (config, each) in enumerate(zip(configs, described, strict=True)):
        others = kinds[1 - number] if len(configs) == 2 else None
        start, drawn = right, []
        for place, column in enumerate(each):
            half = width_of(column.steps) / 2
            long = any(isinstance(step, Repeat) and "(" in step.count for step in column.steps)
            counts_right, room = place > 0, 0.95 if long else 0.7
            x = right + (0.45 if counts_right else room) + MARGIN + half
            drawing = ColumnDrawing(canvas, x, others, counts_right)
            tops.append(drawing.draw(column))
            drawn.append((drawing, tops[-1]))
            right = x + half + RESIDUAL + MARGIN / 2 + (room if counts_right else 0.0)
        if len(drawn) == 2:
            _memory(canvas, *drawn)
        right += 0.1
        heads.append(((start + right) / 2, names[number], _summary(config)))
    top = max(tops) + 0.25
    for x, name, summary in heads:
        short = name if len(name) <= 40 else "…" + name[-39:]
        canvas.text(x, top + 0.28, short, 11, weight="bold")
        canvas.text(x, top + 0.07, summary, 8, color=QUIET)
    bottom = -0.3
    if len(configs) == 2:
        bottom = -0.55
        if canvas.has_marks:
            canvas.box(right / 2 - 1.3, -0.45, (0.22, 0.14), "input", marked=True)
            canvas.text(right / 2 - 1.0, -0.38, "differs from the other one, not only in size", 7.5, ha="left")
        else:
            canvas.text(right / 2, -0.38, "both have the same kinds of parts; look at order, number and size", 7.5)
    return canvas.finish(0.0, bottom, right, top + 0.48)


def _memory(canvas: Canvas, encoder: tuple[ColumnDrawing, float], decoder: tuple[ColumnDrawing, float]) -> None:
    """Draws the line from the encoder's output to every cross-attention."""
    (source, top), (target, _) = encoder, decoder
    middle = source.x + WIDTH / 2 + RESIDUAL + MARGIN / 2 + 0.15
    for x, y in target.memory_inputs:
        canvas.line((source.x, top), (source.x, top + 0.12), (middle, top + 0.12), (middle, y), (x, y))


def _summary(config: ResolvedConfig) -> str:
    total = cost.summary(config).unpadded
    return f"{config.model.architecture.replace('_', '-')}, D = {config.model.dim:,}, {total:,} parameters"
