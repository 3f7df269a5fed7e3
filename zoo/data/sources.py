"""Where text comes from: `data.source` -> documents, and their fixed split into training and validation.

A source is one function in `SOURCES`, looked up by what stands before the ":" of `data.source`.
"""

import difflib
import glob
import gzip
import hashlib
import math
import os
import platform
import re
import sysconfig
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from zoo.errors import ConfigError, DataError, did_you_mean

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Not the library itself, or (the second line) written when Python was built: the same Python version
# should give the same text on every machine.
_STDLIB_SKIPPED = re.compile(
    r"(site-packages|dist-packages|test|tests|idlelib|lib2to3|__pycache__)$"
    r"|_sysconfigdata|config-"
)

# From this many documents on, validation is made of whole documents.
_WHOLE_DOCUMENTS_FROM = 20


@dataclass(frozen=True)
class Documents:
    """Texts in a fixed order, none of them blank.

    Attributes:
        texts: the documents.
        description: one line for people: what this is and how much of it.
    """

    texts: tuple[str, ...]
    description: str

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) over the content: the same texts in the same order, whatever files they came from."""
        digests = (hashlib.sha256(text.encode()).digest() for text in self.texts)
        return hashlib.sha256(b"".join(digests)).hexdigest()

    @cached_property
    def characters(self) -> int:
        """Number of characters in all documents."""
        return sum(map(len, self.texts))

    @cached_property
    def bytes(self) -> int:
        """Number of UTF-8 bytes in all documents."""
        return sum(len(text.encode()) for text in self.texts)


class Source(NamedTuple):
    """How `data.source` is written, and the function of (what follows the ":", `data`) that reads it."""

    usage: str
    read: Callable[[str, Any], Documents]


def read_documents(data: Any) -> Documents:
    """Reads the source that `data.source` names.

    Args:
        data: the `data` part of a config (`source`, `document_separator`).

    Raises:
        ConfigError: unknown source, or a file or folder that does not exist.
        DataError: text that is not UTF-8, or that is empty.
    """
    kind, _, argument = str(data.source).partition(":")
    if kind not in SOURCES:
        options = ", ".join(f'"{source.usage}"' for source in SOURCES.values())
        hint = did_you_mean(kind, SOURCES)
        raise ConfigError(f'data.source: unknown source "{data.source}"{hint}; one of {options}')
    return SOURCES[kind].read(argument, data)


def read_text_file(path: str | Path, separator: str = "") -> Documents:
    """Reads one text file, plain or `.gz`; `separator` divides it into documents ("" = one document).

    A byte order mark is removed; newlines stay as they are.

    Raises:
        ConfigError: no such file.
        DataError: not UTF-8, a broken .gz, or blank.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise ConfigError(f'no such file: "{path}"{_suggestion(path)}')
    return _documents_of([path], separator, str(path))


def split(documents: Documents, fraction: float) -> tuple[Documents, Documents]:
    """Divides documents into (training, validation), by their content alone.

    With 20 documents or more, validation takes whole documents in the order of the sha256 of their
    text, passing over one that would take it further from the wanted size than it already is; equal
    documents stay together. With fewer documents, or when none is small enough, the last `fraction`
    of the characters is cut off the end of the text, as nanoGPT does for tiny Shakespeare.

    Args:
        documents: what to divide.
        fraction: part of the characters that validation gets, between 0 and 1 (both excluded).

    Raises:
        ConfigError: a fraction outside that range.
        DataError: one side would be empty.
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"data.validation_fraction: must lie between 0 and 1, both excluded; got {fraction}")
    chosen = set()
    if len(documents.texts) >= _WHOLE_DOCUMENTS_FROM:
        chosen = _chosen_documents(documents, fraction)
    if chosen:
        train = [text for text in documents.texts if text not in chosen]
        validation = [text for text in documents.texts if text in chosen]
    else:
        train, validation = _cut(documents, fraction)
    if not train or not validation:
        raise DataError(
            f"data.validation_fraction: {fraction} of {documents.description} leaves the "
            f"{'validation' if train else 'training'} part empty; take a longer text or another fraction"
        )
    return (
        Documents(tuple(train), f"training part of {documents.description}"),
        Documents(tuple(validation), f"validation part of {documents.description}"),
    )


def _chosen_documents(documents: Documents, fraction: float) -> set[str]:
    sizes: dict[str, int] = {}
    for text in documents.texts:
        sizes[text] = sizes.get(text, 0) + len(text)
    wanted, taken, chosen = fraction * documents.characters, 0, set()
    for text in sorted(sizes, key=lambda text: hashlib.sha256(text.encode()).digest()):
        if abs(taken + sizes[text] - wanted) < abs(taken - wanted):
            chosen.add(text)
            taken += sizes[text]
    return chosen if len(chosen) < len(sizes) else set()


def _cut(documents: Documents, fraction: float) -> tuple[list[str], list[str]]:
    remaining = documents.characters - math.ceil(documents.characters * fraction)
    train, validation = [], []
    for text in documents.texts:
        train.append(text[:remaining])
        validation.append(text[remaining:])
        remaining -= len(train[-1])
    return [text for text in train if text], [text for text in validation if text]


def _standard_library(argument: str, data: Any) -> Documents:
    """Every .py file of the running Python's standard library, one document per file, sorted by path."""
    if argument:
        raise ConfigError(f'data.source: "stdlib" takes no argument, got "{data.source}"')
    root = Path(sysconfig.get_path("stdlib"))
    files = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if not _STDLIB_SKIPPED.match(name)]
        files += [Path(folder, name) for name in names if name.endswith(".py")]
    files = [path for path in files if not _STDLIB_SKIPPED.match(path.name)]
    files.sort(key=lambda path: path.relative_to(root).as_posix())
    texts, skipped = [], 0
    for path in files:
        try:
            texts.append(path.read_bytes().removeprefix(_BYTE_ORDER_MARK).decode())
        except UnicodeDecodeError:
            skipped += 1
    texts = _without_blank(texts)
    if not texts:
        raise ConfigError(f'data.source: "stdlib" reads the standard library\'s files, but "{root}" has none')
    description = f"standard library of Python {platform.python_version()}: {_amount(texts)}"
    return Documents(tuple(texts), description + (f" ({skipped} files not UTF-8 left out)" if skipped else ""))


def _text(argument: str, data: Any) -> Documents:
    """A text file (plain or .gz), or every file of a folder or glob pattern, sorted by path."""
    if not argument:
        raise ConfigError('data.source: "text" needs a file, a folder or a pattern, e.g. "text:corpus/*.txt"')
    path = Path(argument).expanduser()
    if path.is_dir():
        files = [entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith(".")]
        problem = f'data.source: no files in the folder "{path}"; "{path}/**/*" would take those of its subfolders'
    elif path.is_file():
        files, problem = [path], ""
    else:
        files = [Path(match) for match in glob.glob(str(path), recursive=True) if os.path.isfile(match)]
        problem = f'data.source: no such file or folder: "{path}"{_suggestion(path)}'
        if glob.has_magic(str(path)):
            problem = f'data.source: no file matches "{path}"'
    if not files:
        raise ConfigError(problem)
    files.sort(key=lambda file: file.as_posix())
    return _documents_of(files, data.document_separator, str(data.source))


def _documents_of(files: list[Path], separator: str, name: str) -> Documents:
    texts = []
    for path in files:
        text = _decoded(path)
        texts += text.split(separator) if separator else [text]
    texts = _without_blank(texts)
    if not texts:
        raise DataError(f'"{name}": the text is empty')
    files_read = f" in {len(files)} files" if len(files) > 1 else ""
    return Documents(tuple(texts), f"{name}: {_amount(texts)}{files_read}")


def _decoded(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f'cannot read "{path}": {error.strerror}') from error
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f'"{path}": not a complete gzip file: {error}') from error
    text = content.removeprefix(_BYTE_ORDER_MARK)
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        offset = error.start + len(content) - len(text)
        where = " of the decompressed text" if path.suffix == ".gz" else ""
        problem = f"not UTF-8: byte 0x{content[offset]:02x} at byte offset {offset}{where}; convert it to UTF-8"
        raise DataError(f'"{path}": {problem}') from error


def _without_blank(texts: Iterable[str]) -> list[str]:
    return [text for text in texts if text and not text.isspace()]


def _amount(texts: list[str]) -> str:
    documents = f"{len(texts):,} documents" if len(texts) != 1 else "1 document"
    return f"{documents}, {sum(map(len, texts)):,} characters"


def _suggestion(path: Path) -> str:
    """A hint for the first part of `path` that does not exist."""
    missing, parent = path, path.parent
    while not parent.is_dir() and parent != parent.parent:
        missing, parent = parent, parent.parent
    # Not did_you_mean: it takes what follows a dot for a field's name, here it is a file's ending.
    close = difflib.get_close_matches(missing.name, sorted(os.listdir(parent)), n=1)
    return f' (did you mean "{parent / close[0]}"?)' if close else ""


SOURCES = {"stdlib": Source("stdlib", _standard_library), "text": Source("text:PATH", _text)}
