"""The table of hooks in docs/your_own_variant.md."""

import inspect
import re

# Heading of a recipe -> the base class that it is about.
RECIPES = {
    "Norm": "Norm",
    "Placement": "Block",
    "Position scheme": "Position",
    "Convolution": "DepthwiseConvolution",
    "Feed-forward layer": "FeedForward",
    "Attention kind": "Attention",
    "Objective": "Objective",
}


def rows(page):
    """Yields (names of the classes, cell of the hooks) of every row that is about classes."""
    table = page.partition("## All hooks")[2]
    classes: list[str] = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line[1:-1].split("|")]
        if not line.startswith("| ") or len(cells) < 4 or cells[0].startswith(("`Kind(", "any kind")):
            continue
        if cells[0]:
            # A part without classes has functions or a tuple of its own.
            classes = []
        classes = re.findall(r"`(\w+)`", cells[1]) or classes
        if classes:
            yield classes, cells[2]


def required(page):
    """Returns {class: hooks in bold}."""
    found = {}
    for classes, cell in rows(page):
        for owner in classes:
            found.setdefault(owner, []).extend(re.findall(r"\*\*`(\w+)\(", cell))
    return found


def hooks_of(owner):
    """Returns the names of the methods of a class of zoo that a subclass may define."""
    return {
        name
        for base in inspect.getmro(owner)
        if base.__module__.startswith("zoo.")
        for name, value in vars(base).items()
        if (name == "__call__" or not name.startswith("_"))
        and (callable(value) or isinstance(value, staticmethod | property))
    } - {"projected", "publishes"}
