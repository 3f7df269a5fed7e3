"""Records of the systems that are compared with the library that defined them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zoo.interop import Importer

# The library of a class that came with version 5. The tests of parity run with version 4, so such a
# system is compared with its class by tests/transformers5, and by default with its stored outputs.
FIVE = "transformers 5"


@dataclass(frozen=True)
class Published:
    """A parameter count to be met.

    Attributes:
        source: a config, "configs/gpt2.py:small", or the settings of the reference class (missing
            settings have the class's defaults).
        count: the number, from the reference code.
        name: the name in the table, if the source is not a file.
        without: zoo's paths that the number does not count, e.g. ("pooler",).
        note: a remark in the table, e.g. if a different number is printed elsewhere.
    """

    source: str | Mapping[str, Any]
    count: int
    name: str = ""
    without: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class System:
    """A tiny model of a reference class.

    Attributes:
        name: name of the test and of the stored file.
        what: what it shows, in one line of the table.
        reference: the class, which also names the importer.
        settings: its config; missing settings have the class's defaults.
        overrides: zoo's fields that the reference's config does not have.
        length: tokens per row; for an encoder-decoder, of the source, and targets have two thirds.
        kernels: attention kernels that are compared: the first without scanning on padded rows, the
            others scanned on full rows.
        tolerance: largest difference of the outputs, relative to the largest of them, and likewise
            of every parameter's gradient.
        library: which entry of `tests.parity.references.LIBRARIES` builds it; `FIVE` for a class that
            transformers 4 lacks.
        published: parameter counts to be met.
        importer: the importer of a reference that is defined in these tests; None for the importer of
            the class.
        training: whether both sides run in training mode.
        padded: whether some rows have padding; a reference may lack what keeps it out.
    """

    name: str
    what: str
    reference: str
    settings: Mapping[str, Any]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    length: int = 12
    kernels: tuple[str, ...] = ("einsum", "rows")
    tolerance: float = 1e-4
    library: str = "transformers"
    published: tuple[Published, ...] = ()
    importer: Importer | None = None
    training: bool = False
    padded: bool = True

    @property
    def imported_as(self) -> str | Importer:
        """The class or importer that the functions of `zoo.interop` take."""
        return self.importer or self.reference


@dataclass(frozen=True)
class Comparison:
    """A comparison of a part of a model, or with files. A test module measures it.

    Attributes:
        name, what, reference, tolerance, published: as of a `System`.
        module: its `measure()` returns the largest difference of the outputs and of the gradients
            (None if the reference gives none), both relative, and the library and its version; or
            None if its files or libraries are not on this machine.
    """

    name: str
    what: str
    reference: str
    module: str
    tolerance: float = 1e-4
    published: tuple[Published, ...] = ()
