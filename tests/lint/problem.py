"""A problem that a rule found, and where."""

import ast
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Problem(NamedTuple):
    """One line of the linter's output.

    Attributes:
        file: the file, relative to the root of the repository.
        line: its line, from 1.
        text: the rule that is broken, and by what.
    """

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def at(path: Path, text: str, line: int = 1, root: Path = ROOT) -> Problem:
    """Returns a problem of a file below `root`."""
    return Problem(str(path.relative_to(root)), line, text)


def line_of(text: str, place: int) -> int:
    """Returns the number of the line that holds a character of a text."""
    return text.count("\n", 0, place) + 1


def module_docstring(path: Path) -> str:
    """Returns the docstring of a Python file, "" without one."""
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
