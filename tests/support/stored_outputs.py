"""Reads and writes the references' outputs in tests/stored/: one JSON and one npz file per system,
with a digest of the gradients and no weights, which `tests.parity.harness.random_tensor` derives
from the tensors' names.
"""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.parity.harness import Arrays

FOLDER = Path(__file__).parents[1] / "stored"


def digest(gradients: Arrays) -> Arrays:
    """Returns the norm of each tensor's gradient and its product with a random unit vector, sorted
    by name.
    """
    norms, products = [], []
    for name in sorted(gradients):
        gradient = gradients[name].astype(np.float64)
        direction = np.random.default_rng(zlib.crc32(name.encode()) + 1).standard_normal(gradient.shape)
        norms.append(np.linalg.norm(gradient))
        products.append((gradient * direction).sum() / np.linalg.norm(direction))
    return {"norms": np.array(norms), "products": np.array(products)}


def write(name: str, about: dict[str, Any], outputs: Arrays, gradients: Arrays, batch: Arrays) -> int:
    """Writes a system's files and returns their size in bytes."""
    FOLDER.mkdir(exist_ok=True)
    described, arrays = FOLDER / f"{name}.json", FOLDER / f"{name}.npz"
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in about.items()]
    described.write_text("{" + ",\n ".join(lines) + "}\n", encoding="utf-8")
    kept = {
        "outputs": outputs,
        "batch": {key: value.astype(np.int16) for key, value in batch.items()},
        "gradients": digest(gradients),
    }
    np.savez_compressed(
        arrays, **{f"{group}/{key}": value for group, values in kept.items() for key, value in values.items()}
    )
    return described.stat().st_size + arrays.stat().st_size


def read(name: str) -> tuple[dict[str, Any], Arrays, Arrays, Arrays]:
    """Returns (description, outputs, digest of the gradients, batch) of a system."""
    about = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    groups: dict[str, Arrays] = {"outputs": {}, "gradients": {}, "batch": {}}
    with np.load(FOLDER / f"{name}.npz") as arrays:
        for path in arrays.files:
            group, key = path.split("/")
            groups[group][key] = arrays[path]
    return about, groups["outputs"], groups["gradients"], groups["batch"]
