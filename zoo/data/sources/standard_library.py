"""The running Python's own standard library as text: its code, or the prose of its docstrings."""

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

# Not the library itself, or (the second line) written when Python was built: the same Python
# version should give the same text on every machine.
_SKIPPED = re.compile(
    r"(site-packages|dist-packages|test|tests|idlelib|lib2to3|__pycache__)$"
    r"|_sysconfigdata|config-"
)
# A line of a list, a table, a heading or an example.
_NO_PROSE = re.compile(r"\s|>>>|\.\.|[-*+=~#|:@]|\d+[.)]|\(?[a-z]\)|[\w.]+\(|[\w, -]+:$|.*(  |\t|--|->)")
_PROSE = re.compile(r"[\"'(]?[A-Z].*[.!?][\"')]*", re.DOTALL)


class Docstring(NamedTuple):
    """A docstring and the module that it is in, e.g. "json.decoder"."""

    module: str
    text: str


def standard_library(argument: str, data: Any) -> Documents:
    """Every .py file of the standard library, one document per file, sorted by path; or the prose
    of each module's docstrings.

    Raises:
        ConfigError: an argument other than "docstrings"; no library there.
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
    """The folder of the standard library.

    Raises:
        ConfigError: it has no files.
    """
    root = Path(sysconfig.get_path("stdlib"))
    if not standard_library_files(root):
        raise ConfigError(f'data.source: "stdlib" reads the standard library\'s files, but "{root}" has none')
    return root


def standard_library_files(root: Path) -> list[Path]:
    """The .py files of the library under `root`, sorted by path."""
    files = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if not _SKIPPED.match(name)]
        files += [Path(folder, name) for name in names if name.endswith(".py")]
    files = [path for path in files if not _SKIPPED.match(path.name)]
    return sorted(files, key=lambda path: path.relative_to(root).as_posix())


def library_modules(root: Path) -> Iterator[tuple[str, str]]:
    """(module, code) of every file that is Python in UTF-8, sorted by path."""
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
    """The syntax tree, or None where the running Python cannot read it; warnings about the code are
    not the user's.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError):
            return None


@functools.cache
def library_docstrings(root: Path) -> tuple[Docstring, ...]:
    """All docstrings, in the order of the files and of their lines (a few seconds, once in a
    process).
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
    """The paragraphs that are English prose, each as one line: no examples, lists, tables, headings
    or signatures.
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
