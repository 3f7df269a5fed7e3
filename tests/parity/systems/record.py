"""What a system is that is compared with the library that defined it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zoo.interop import Importer


@dataclass(frozen=True)
class Published:
    """A parameter count to be met.

    Attributes:
        source: a config, "configs/gpt2.py:small", or the settings of the reference class (what they
            leave out is its default).
        count: the number, from the reference code.
        name: how the table calls it, where the source is not a file.
        without: paths of ours that the number leaves out, e.g. ("pooler",).
        note: what the table says beside the number, where another one is printed elsewhere.
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
        what: what it shows, one line for the table.
        reference: the class, which also names the importer.
        settings: its config; what they leave out is the class's default.
        overrides: fields of ours that the reference's config does not hold.
        length: tokens of a row; of an encoder-decoder's source, whose targets are two thirds of it.
        kernels: attention kernels that are compared: the first without scanning on padded rows, the
            others scanned on full rows.
        tolerance: largest difference of the outputs, relative to the largest of them, and likewise
            of every parameter's gradient.
        library: which entry of `tests.parity.references.LIBRARIES` builds it.
        published: counts to be met.
        importer: that of a reference of our own making, of which nobody has files; None for that of
            the class.
        training: both sides run as in training.
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

    @property
    def imported_as(self) -> str | Importer:
        """What the functions of `zoo.interop` take."""
        return self.importer or self.reference


@dataclass(frozen=True)
class Comparison:
    """A comparison of another shape: of a part of a model, or with files. A module of tests
    measures it.

    Attributes:
        name, what, reference, tolerance, published: as of a `System`.
        module: its `measure()` returns the largest difference of the outputs and of the gradients
            (None where the reference gives none), both relative, and the library and its version;
            or None where what it needs is not on this machine.
    """

    name: str
    what: str
    reference: str
    module: str
    tolerance: float = 1e-4
    published: tuple[Published, ...] = ()
