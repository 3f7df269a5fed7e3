"""Where text comes from: `data.source` -> documents.

A source is one function in `SOURCES`, looked up by what stands before the ":" of `data.source`.
"""

import os
import platform
import re
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import ml_collections

from zoo.data.documents import Documents, Piece
from zoo.data.files import BYTE_ORDER_MARK, file_pieces, find_files, suggestion
from zoo.data.hubs import hugging_face, tensorflow_datasets
from zoo.data.records import json_lines, parquet
from zoo.data.synthetic import synthetic
from zoo.data.text import TextPolicy
from zoo.errors import ConfigError, did_you_mean

# Not the library itself, or (the second line) written when Python was built: the same Python version
# should give the same text on every machine.
_STDLIB_SKIPPED = re.compile(
    r"(site-packages|dist-packages|test|tests|idlelib|lib2to3|__pycache__)$"
    r"|_sysconfigdata|config-"
)


class Source(NamedTuple):
    """How `data.source` is written, and the function of (what follows the ":", `data`) that opens it."""

    usage: str
    read: Callable[[str, Any], Documents]


def read_documents(data: Any) -> Documents:
    """Opens the source that `data.source` names; its text is read when it is asked for.

    Args:
        data: the `data` part of a config.

    Raises:
        ConfigError: unknown source, or a file or folder that does not exist.
    """
    kind, _, argument = str(data.source).partition(":")
    if kind not in SOURCES:
        options = ", ".join(f'"{source.usage}"' for source in SOURCES.values())
        hint = did_you_mean(kind, SOURCES)
        raise ConfigError(f'data.source: unknown source "{data.source}"{hint}; one of {options}')
    return SOURCES[kind].read(argument, data)


def read_components(data: Any) -> list[tuple[float, Documents]]:
    """The sources of the `data` part of a config with their weights: those of `data.mixture`, or the one of `data.source`.

    Raises:
        ConfigError: as `read_documents`; an entry that is not a weight and a source.
    """
    if data.source != "mixture":
        return [(1.0, read_documents(data))]
    components, problems = [], []
    for entry in data.mixture:
        weight, _, source = entry.partition("*")
        try:
            if not 0 < float(weight) < float("inf"):
                raise ValueError
            components.append((float(weight), read_documents(ml_collections.ConfigDict({**data, "source": source.strip()}))))
        except ValueError:
            problems.append(f'data.mixture: "{entry}" is not a positive weight and a source; e.g. "0.7*text:corpus.txt","0.3*stdlib"')
        except ConfigError as error:
            problems += [problem.replace("data.source", "data.mixture", 1) for problem in error.problems]
    if not data.mixture:
        problems.append('data.mixture: empty; data.source=mixture needs weights and sources, e.g. "0.7*text:corpus.txt","0.3*stdlib"')
    if problems:
        raise ConfigError(problems)
    return components


def read_text_file(path: str | Path, separator: str = "", bad_text: str = "error") -> Documents:
    """One text file, plain or `.gz`; `separator` divides it into documents ("" = one document).

    A byte order mark is removed; newlines stay as they are.

    Raises:
        ConfigError: no such file.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise ConfigError(f'no such file: "{path}"{suggestion(path)}')
    return Documents(lambda policy: file_pieces(path, separator, policy), str(path), bad_text)


def _standard_library(argument: str, data: Any) -> Documents:
    """Every .py file of the running Python's standard library, one document per file, sorted by path."""
    if argument:
        raise ConfigError(f'data.source: "stdlib" takes no argument, got "{data.source}"')
    root = Path(sysconfig.get_path("stdlib"))
    files = standard_library_files(root)
    if not files:
        raise ConfigError(f'data.source: "stdlib" reads the standard library\'s files, but "{root}" has none')

    def read(policy: TextPolicy) -> Iterator[Piece]:
        for path in files:
            try:
                yield Piece(True, path.read_bytes().removeprefix(BYTE_ORDER_MARK).decode())
            except UnicodeDecodeError:
                policy.counts["files not UTF-8"] += 1

    return Documents(read, f"standard library of Python {platform.python_version()}", data.bad_text)


def standard_library_files(root: Path) -> list[Path]:
    """The .py files of the library under `root`, sorted by path."""
    files = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if not _STDLIB_SKIPPED.match(name)]
        files += [Path(folder, name) for name in names if name.endswith(".py")]
    files = [path for path in files if not _STDLIB_SKIPPED.match(path.name)]
    return sorted(files, key=lambda path: path.relative_to(root).as_posix())


def _text(argument: str, data: Any) -> Documents:
    """A text file (plain or .gz), or every file of a folder or glob pattern, sorted by path."""
    files = find_files(argument, "text", "corpus/*.txt")

    def read(policy: TextPolicy) -> Iterator[Piece]:
        for path in files:
            yield from file_pieces(path, data.document_separator, policy)

    name = str(data.source) + (f" in {len(files)} files" if len(files) > 1 else "")
    return Documents(read, name, data.bad_text)


SOURCES = {
    "stdlib": Source("stdlib", _standard_library),
    "text": Source("text:PATH", _text),
    "jsonl": Source("jsonl:PATH", json_lines),
    "parquet": Source("parquet:PATH", parquet),
    "hf": Source("hf:NAME_OR_FOLDER", hugging_face),
    "tfds": Source("tfds:NAME", tensorflow_datasets),
    "synthetic": Source("synthetic:TASK", synthetic),
}
