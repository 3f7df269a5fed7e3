"""Names that tensors have in other files of the same class: older ones, and those of the model
without its heads.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from zoo.errors import DataError


class RenamedTensors(Mapping[str, Any]):
    """Tensors under their present names, read one at a time.

    Args:
        tensors: those of a file, by name.
        endings: {".gamma": ".weight"}: how names end in older files, and how they end now.
        prefix: what a file without heads leaves out in front of every name; where no name has it,
            all get it.
        heads: first parts of the names that never have it.

    Raises:
        DataError: if two tensors would have one name.
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
