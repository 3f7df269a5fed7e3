"""Runs the references and writes their outputs and gradients to tests/stored/, for tests that do
without the other libraries.

python -m tests.parity.store            all systems
python -m tests.parity.store gpt2 llama these

The files of classes that only transformers 5 has are written where it is installed; elsewhere they
are kept.
"""

import sys

from tests.parity.harness import make_batch, resolved
from tests.parity.references import build, is_here, run_theirs
from tests.parity.systems import SYSTEMS
from tests.support.stored_outputs import FOLDER, write
from zoo.interop import importer_of
from zoo.interop.weights.mapping import Rule

LARGEST = 60_000


def store(system) -> int:
    """Writes one system's files and returns their size in bytes."""
    reference = build(system)
    config = resolved(system, reference.hf)
    batch = make_batch(system, config, padded=system.padded)
    outputs, _, gradients = run_theirs(reference, batch, config)
    importer = importer_of(system.imported_as)
    rules = (*importer.rules(config.model), *importer.statistics(config.model))
    # The importer skips parameters that a class has but does not use, e.g. the table of positions in a
    # BERT with relative positions.
    read = {name for rule in rules if isinstance(rule, Rule) for name in rule.names()}
    gradients = {name: gradient for name, gradient in gradients.items() if name in read}
    about = {
        "reference": system.reference,
        "library": reference.version,
        "config": reference.written,
        "tensors": {name: list(tensor.shape) for name, tensor in reference.tensors().items() if name in read},
    }
    return write(system.name, about, outputs, gradients, batch)


def main(names: list[str]) -> None:
    """Stores the systems named, or all and nothing else."""
    here = [system for system in SYSTEMS if is_here(system)]
    if not names:
        kept = {system.name for system in SYSTEMS if system not in here}
        for path in FOLDER.glob("*"):
            if path.stem not in kept:
                path.unlink()
    for system in here:
        if not names or system.name in names:
            size = store(system)
            print(f"{system.name}: {size:,} bytes")
            if size > LARGEST:
                raise SystemExit(f"{system.name}: more than {LARGEST:,} bytes; make the system smaller")


if __name__ == "__main__":
    main(sys.argv[1:])
