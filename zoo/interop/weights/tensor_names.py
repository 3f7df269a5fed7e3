"""Other names of tensors: those of older files, and those of files without heads."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from zoo.errors import DataError


class RenamedTensors(Mapping[str, Any]):
    """Tensors under their current names, read one at a time.

    Args:
        tensors: the tensors of a file, by name.
        endings: {".gamma": ".weight"}: old and current endings of names.
        prefix: prefix of every name, omitted in files without heads; it is added if no name has it.
        heads: first parts of names that never have the prefix.

    Raises:
        DataError: two tensors would have the same name.
    """

    def __init__(
        self, tensors: Mapping[str, Any], endings: Mapping[str, str], prefix: str = "", heads: Collection[str] = ()
    ):
        self.tensors = tensors
        self.names: dict[str, str] = {}
        bare = prefix and not any(name.startswith(f"{prefix}.") for name in tensors)
        for name in tensors:
            old = next((ending for ending in endings if name.endswith(ending)), None)
            present = name if old is None else name.removesuffix(old) + endings[old]
            if bare and name.split(".")[0] not in heads:
                present = f"{prefix}.{present}"
            if present in self.names:
                raise DataError(f"tensors {self.names[present]} and {name} are both {present}")
            self.names[present] = name

    def __getitem__(self, name: str) -> Any:
        return self.tensors[self.names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)
