"""Checkpoints of other libraries, read and written: one file per model family in `families`.

`zoo.interop.importing` makes a run of a checkpoint and `zoo.interop.exporting` a checkpoint of a
run. `FAMILIES` maps class names, which a `config.json` lists under `architectures`, to importers.
Every function that takes a class name also accepts an `Importer`, e.g. one for a class of your own.
Importing this package imports no accelerator library.
"""

from zoo.interop.class_registry import FAMILIES, importer_of, resolve_like
from zoo.interop.settings.importer import Importer

__all__ = ["FAMILIES", "Importer", "importer_of", "resolve_like"]
