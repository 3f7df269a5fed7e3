"""The record of a deliberate fault, which can be applied to a copy of the sources."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """One deliberate fault.

    Attributes:
        name: the fault, e.g. "loop: the last step is left out".
        file: the source file, relative to the root of the repository.
        old: text that occurs exactly once in the file.
        new: the text that replaces it.
        tests: node ids of pytest, at least one of which must fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def problem(self, root: Path) -> str | None:
        """Returns why the fault cannot be applied to the tree at `root`, or None."""
        path = root / self.file
        if not path.is_file():
            return f"{self.name}: no file {self.file}"
        count = path.read_text(encoding="utf-8").count(self.old)
        if count != 1:
            return f"{self.name}: its old text occurs {count} times in {self.file}"
        if self.old == self.new:
            return f"{self.name}: changes nothing"
        missing = [test for test in self.tests if not (root / test.partition("::")[0]).is_file()]
        return f"{self.name}: no such test: {', '.join(missing)}" if missing or not self.tests else None

    @contextlib.contextmanager
    def applied(self, root: Path) -> Iterator[None]:
        """Applies the fault to the tree at `root` and restores the file afterwards."""
        path = root / self.file
        original = path.read_text(encoding="utf-8")
        path.write_text(original.replace(self.old, self.new), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(original, encoding="utf-8")
