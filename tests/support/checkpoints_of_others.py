"""Checkpoint folders in the format of other libraries, with the random weights of the parity tests,
as input of `zoo import`.
"""

import contextlib
import io
import json
from pathlib import Path

import numpy as np

from tests.parity.harness import random_tensor, resolved
from tests.parity.systems import SYSTEMS
from tests.support.stored_outputs import read
from zoo.cli.main import main
from zoo.interop import FAMILIES, importer_of
from zoo.interop.weights.mapping import ConstantTensor
from zoo.interop.weights.tensor_files import open_tensors, write_tensors

# The systems, by name, whose class `zoo import` can read; controls have their own importers.
OF_CLASSES = {system.name: system for system in SYSTEMS if system.importer is None and system.reference in FAMILIES}

# Systems whose values differ in fields that are arguments of the class or set by the library's
# code, and so cannot be read from its settings.
NO_SETTINGS = {
    "longformer-windows": "model.attention.global_tokens (layer 0)=2; it would be 1",
    "longformer-blocks": "model.attention.global_tokens=3; it would be 1",
    "longformer-local": "model.attention.global_tokens=0; it would be 1",
    "performer-rope": "model.position.kind='rope'; it would be 'learned'",
    "performer-rope-causal": "model.position.kind='rope'; it would be 'learned'",
}  # fmt: skip
EXPRESSED = [name for name in OF_CLASSES if name not in NO_SETTINGS]


def stored_tensors(name):
    """Returns the tensors of a system's reference, as float32, with those that hold constants."""
    about, system = read(name)[0], OF_CLASSES[name]
    found = {tensor: random_tensor(tensor, tuple(shape)) for tensor, shape in about["tensors"].items()}
    for rule in importer_of(system.reference).rules(resolved(system, about["config"]).model):
        found |= rule.tensors() if isinstance(rule, ConstantTensor) else {}
    return found


def write_checkpoint(folder: Path, name: str, words: int | None = 2, **settings) -> Path:
    """Writes config.json, model.safetensors and, unless `words` is None, a vocabulary of that many
    words.
    """
    about = read(name)[0]
    folder.mkdir(parents=True, exist_ok=True)
    config = about["config"] | {"architectures": [about["reference"]]} | settings
    (folder / "config.json").write_text(json.dumps(config))
    write_tensors(folder / "model.safetensors", stored_tensors(name))
    if words is not None:
        vocabulary = ["<s>", "[MASK]", "[UNK]", *(f"w{i}" for i in range(words))][: max(2, words)]
        (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    return folder


def zoo(*arguments) -> tuple[int, str, list[str]]:
    """Returns exit code, standard output and the lines of standard error of a `zoo` command."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue(), errors.getvalue().splitlines()


def imported(folder: Path, name: str, **options) -> Path:
    """Imports a system by `zoo import`, with the fields that its comparison sets, and returns the
    run's folder.
    """
    source, run = write_checkpoint(folder / "source", name, **options), folder / "run"
    code, _, errors = zoo(
        "import",
        f"hf:{source}",
        "--out",
        run,
        *(f"--config.{path}={value}" for path, value in OF_CLASSES[name].overrides.items()),
    )
    assert code == 0, errors
    return run


def arrays_of(folder: Path) -> dict[str, np.ndarray]:
    """Returns the tensors of a folder by name."""
    tensors = open_tensors(folder)
    found = {name: np.asarray(tensors[name]) for name in tensors}
    tensors.finish()
    return found
