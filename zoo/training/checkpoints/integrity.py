"""The integrity check that Orbax lacks: a manifest with the sha256 of a checkpoint's files."""

import hashlib
from pathlib import Path

from zoo.files import read_json, write_json

MANIFEST = "manifest.json"


def file_hashes(folder: Path) -> dict[str, str]:
    """Returns the sha256 of every file below `folder`, by relative path, without the manifest."""
    hashes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            with path.open("rb") as file:
                hashes[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def write_manifest(folder: Path) -> None:
    """Writes the manifest of a checkpoint's folder."""
    write_json(folder / MANIFEST, file_hashes(folder))


def has_manifest(folder: Path) -> bool:
    """Returns whether a checkpoint's folder has a manifest."""
    return (folder / MANIFEST).is_file()


def find_damage(folder: Path) -> str | None:
    """Returns the fault of a checkpoint on disk, or None if it is sound.

    A checkpoint without a manifest, which a kill prevented from being written, passes if its state
    is there: Orbax commits by an atomic rename.
    """
    if not (folder / "state").is_dir():
        return "it holds no state"
    if not has_manifest(folder):
        return None
    try:
        expected = read_json(folder / MANIFEST)
    except (OSError, ValueError):
        return "its manifest is not JSON"
    if not isinstance(expected, dict):
        return "its manifest is not a JSON object"
    found = file_hashes(folder)
    for name, digest in expected.items():
        if name not in found:
            return f"{name} is missing"
        if found[name] != digest:
            return f"{name} has changed since it was written"
    return None
