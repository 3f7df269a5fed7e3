"""The running Python's standard library as text: its code, or the prose of its docstrings."""

import ast
import functools
import os
import platform
import re
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from zoo.data.sources.documents import Documents, Piece
from zoo.data.sources.text_files import BYTE_ORDER_MARK
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError

# Not part of the library, or (second line) written when Python was built: the same version of
# Python should give the same text on every machine.
_SKIPPED = re.compile(
    r"(site-packages|dist-packages|test|tests|idlelib|lib2to3|__pycache__)$"
    r"|_sysconfigdata|config-"
)
# Lines of lists, tables, headings and examples.
_NO_PROSE = re.compile(r"\s|>>>|\.\.|[-*+=~#|:@]|\d+[.)]|\(?[a-z]\)|[\w.]+\(|[\w, -]+:$|.*(  |\t|--|->)")
_PROSE = re.compile(r"[\"'(]?[A-Z].*[.!?][\"')]*", re.DOTALL)


class Docstring(NamedTuple):
    """A docstring and its module, e.g. "json.decoder"."""

    module: str
    text: str


def standard_library(argument: str, data: Any) -> Documents:
    """Returns the .py files of the standard library, or the prose of its docstrings.

    Code is one document per file, sorted by path; prose is one document per module.

    Raises:
        ConfigError: an argument other than "docstrings"; the library has no files.
    """
    if argument not in ("", "docstrings"):
        raise ConfigError(f'data.source: "stdlib" takes no argument but "docstrings", got "{data.source}"')
    root = library_root()
    files = standard_library_files(root)

    def code(policy: BadTextPolicy) -> Iterator[Piece]:
        for path in files:
            try:
                yield Piece(True, path.read_bytes().removeprefix(BYTE_ORDER_MARK).decode())
            except UnicodeDecodeError:
                policy.counts["files not UTF-8"] += 1

    def prose(policy: BadTextPolicy) -> Iterator[Piece]:
        modules: dict[str, list[str]] = {}
        for module, text in library_docstrings(root):
            modules.setdefault(module, []).extend(paragraphs(text))
        return (Piece(True, "\n".join(lines)) for lines in modules.values() if lines)

    what = "docstrings of the standard library" if argument else "standard library"
    return Documents(prose if argument else code, f"{what} of Python {platform.python_version()}", data.bad_text)


def library_root() -> Path:
    """Returns the folder of the standard library.

    Raises:
        ConfigError: it has no files.
    """
    root = Path(sysconfig.get_path("stdlib"))
    if not standard_library_files(root):
        raise ConfigError(f'data.source: "stdlib" reads the standard library\'s files, but "{root}" has none')
    return root


def standard_library_files(root: Path) -> list[Path]:
    """Returns the .py files of the library under `root`, sorted by path."""
    files = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if not _SKIPPED.match(name)]
        files += [Path(folder, name) for name in names if name.endswith(".py")]
    files = [path for path in files if not _SKIPPED.match(path.name)]
    return sorted(files, key=lambda path: path.relative_to(root).as_posix())


def library_modules(root: Path) -> Iterator[tuple[str, str]]:
    """Yields (module, code) of every file in UTF-8, sorted by path."""
    for path in standard_library_files(root):
        parts = path.relative_to(root).with_suffix("").parts
        try:
            yield (
                ".".join(parts[:-1] if parts[-1] == "__init__" else parts),
                path.read_bytes().removeprefix(BYTE_ORDER_MARK).decode(),
            )
        except UnicodeDecodeError:
            continue


def parse_or_none(code: str) -> ast.Module | None:
    """Returns the syntax tree, or None if the running Python cannot parse the code.

    Warnings about the code are suppressed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError):
            return None


@functools.cache
def library_docstrings(root: Path) -> tuple[Docstring, ...]:
    """Returns all docstrings, in the order of files and lines.

    This takes a few seconds, once per process.
    """
    found = []
    for module, code in library_modules(root):
        nodes = ast.walk(parse_or_none(code) or ast.Module([], []))
        documented = [
            node
            for node in nodes
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        for node in sorted(documented, key=lambda node: getattr(node, "lineno", 0)):
            if text := ast.get_docstring(node):
                found.append(Docstring(module, text))
    return tuple(found)


def paragraphs(docstring: str) -> list[str]:
    """Returns the paragraphs of English prose, each as one line.

    Examples, lists, tables, headings and signatures are left out.
    """
    kept = []
    for paragraph in re.split(r"\n\s*\n", docstring):
        lines = paragraph.strip("\n").split("\n")
        text = " ".join(line.strip() for line in lines)
        letters = sum(character.isalpha() or character == " " for character in text)
        wordy = text.count(" ") >= 3 and letters > 0.85 * len(text)
        if wordy and _PROSE.fullmatch(text) and not any(_NO_PROSE.match(line) for line in lines):
            kept.append(text)
    return kept
