"""Checks of the drawings that plug-ins register."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from zoo.config.kinds.kind import NAME
from zoo.config.plugins import is_reserved
from zoo.config.shipped import DRAWINGS as SHIPPED
from zoo.draw.drawing import BUILT_IN, DRAWINGS, Drawing

# Options of every figure.
RESERVED = ("--out", "--format", "--json", "--plugin", "--trust-plugin")


@dataclass(frozen=True)
class DrawingRegistration:
    """A drawing of a plug-in; see `zoo.config.plugins.Registration`."""

    name: str
    drawing: Drawing

    def problems(self) -> Iterator[str]:
        label = f"drawing {self.name}"
        if not NAME.fullmatch(self.name):
            yield f"{label}: a name consists of lower-case letters, digits and _"
        elif self.name in {**BUILT_IN, **DRAWINGS} or is_reserved(SHIPPED, self.name):
            yield f"{label} exists already; choose another name"
        if not isinstance(self.drawing, Drawing):
            yield f"{label}: expected a Drawing, got {self.drawing!r}"
            return
        if not self.drawing.meaning.strip():
            yield f"{label}: its meaning is empty; say in one line what it shows"
        for what, function in (("draw", self.drawing.draw), ("add_options", self.drawing.add_options)):
            if not callable(function):
                yield f"{label}: {what} is not a function but {function!r}"
                return
        parser = argparse.ArgumentParser()
        for option in RESERVED:
            parser.add_argument(option)
        try:
            self.drawing.add_options(parser)
        except argparse.ArgumentError as error:
            yield f"{label}: its options cannot be added: {error}"

    def add(self) -> None:
        DRAWINGS[self.name] = self.drawing

    def remove(self) -> None:
        del DRAWINGS[self.name]
