"""The table of all fields, to which plug-ins add those of their kinds."""

from collections.abc import Iterator, Sequence
from typing import Any

from zoo.config.field import Field


class FieldTable(Sequence[Field]):
    """Fields in the order in which a resolved config has them.

    Attributes:
        by_path: the same fields by their path, in the same order.
    """

    def __init__(self, *fields: Field):
        self._fields = list(fields)
        self.by_path: dict[str, Field] = {}
        self._index()

    def _index(self) -> None:
        # Changed in place, because other modules hold this dict.
        self.by_path.clear()
        self.by_path.update((field.path, field) for field in self._fields)

    def add(self, field: Field) -> None:
        """Adds a field after the last one with the same parent, "model.norm" for example."""
        if field.path in self.by_path:
            raise ValueError(f"{field.path} is in the table already")
        parent = field.path.rpartition(".")[0] + "."
        places = [place for place, other in enumerate(self._fields, 1) if other.path.startswith(parent)]
        self._fields.insert(max(places, default=len(self._fields)), field)
        self._index()

    def remove(self, path: str) -> None:
        """Removes the field at a path."""
        self._fields = [field for field in self._fields if field.path != path]
        self._index()

    def __getitem__(self, index: Any) -> Any:
        return self._fields[index]

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)
