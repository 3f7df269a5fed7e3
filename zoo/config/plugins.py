"""Plug-ins: Python files of the user that add kinds to zoo while it runs.

A config names the plug-ins of its run in the field `plugins`, each as "FILE.py:HASH", where HASH is
the beginning of the sha256 of the file's text. The text is stored with every run and sweep, in
`plugins/FILE.py`. A file is executed only

* if the user names it (`--plugin`, the field `plugins`, `zoo.plugin.load`), or
* if its stored text was named so before by the same user on this machine, or
* if the user trusts what a run has stored (`--trust-plugin`), or
* if it comes with zoo (`experiments/measures`, `experiments/drawings`).

What a file registers takes effect as a whole when its execution ends, or not at all. The plug-ins
that come with zoo register measures and drawings, which read runs and change none. They are loaded
when their name is used, and configs do not name them.
"""

import difflib
import hashlib
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from zoo.config.kinds import Kind
from zoo.config.shipped import DRAWINGS, MEASURES, shipped_plugin
from zoo.errors import ConfigError, line_of, user_path, why_no_file
from zoo.files import cache_directory, write_atomic

FOLDER = "plugins"
HASH_DIGITS = 16
DIFF_LINES = 60


class Registration(Protocol):
    """Something that a plug-in adds to a table."""

    def problems(self) -> Iterator[str]:
        """Yields a line for each reason why it cannot be added."""

    def add(self) -> None:
        """Adds it."""

    def remove(self) -> None:
        """Removes it again."""


@dataclass(frozen=True)
class Plugin:
    """A loaded plug-in.

    Attributes:
        name: name of the file, which identifies it within a process.
        text: its content.
        origin: where it was read.
        registrations: what it added, in order.
        shipped: whether it comes with zoo.
    """

    name: str
    text: str
    origin: Path
    shipped: bool = False
    registrations: list[Registration] = field(default_factory=list, compare=False)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def reference(self) -> str:
        """The plug-in's entry in the field `plugins`: its name and the first digits of its hash."""
        return f"{self.name}:{self.sha256[:HASH_DIGITS]}"


_loaded: dict[str, Plugin] = {}
# The plug-ins that are being executed; registrations belong to the innermost.
_executing: list[Plugin] = []
_trusts_stored = False


def loaded() -> tuple[Plugin, ...]:
    """Returns the plug-ins of this process, in the order in which they were loaded."""
    return tuple(_loaded.values())


def references() -> tuple[str, ...]:
    """Returns the value of the field `plugins` for new runs: all loaded plug-ins but those that come
    with zoo.
    """
    return tuple(plugin.reference for plugin in _loaded.values() if not plugin.shipped)


def trust_stored() -> None:
    """Allows this process to execute the plug-ins that runs have stored (`--trust-plugin`)."""
    global _trusts_stored
    _trusts_stored = True


def register(registration: Registration) -> None:
    """Adds an entry to a table: at the end of the plug-in that is being executed, else immediately.

    Raises:
        ConfigError: why it cannot be added.
    """
    if _executing:
        _executing[-1].registrations.append(registration)
    else:
        _add_all([registration])


def _add_all(registrations: Sequence[Registration]) -> None:
    """Adds all registrations, or none if one has problems, which may be due to one before it."""
    added: list[Registration] = []
    problems: list[str] = []
    for registration in registrations:
        if found := list(registration.problems()):
            problems += found
        else:
            registration.add()
            added.append(registration)
    if problems:
        for registration in reversed(added):
            registration.remove()
        raise ConfigError(problems)


def load_plugin(path: str | Path) -> Plugin:
    """Executes a plug-in that the user names, and trusts its text from now on.

    Raises:
        ConfigError: the file is missing, is no Python file or fails, what it registers is refused,
            or another text is loaded under its name.
    """
    path = user_path(path)
    if not path.is_file():
        raise ConfigError(f"plug-in {path} {why_no_file(path, '*.py')}")
    if path.suffix != ".py":
        raise ConfigError(f"plug-in {path} is not a Python (.py) file")
    plugin = Plugin(path.name, _read(path), path)
    _execute(plugin)
    _remember(plugin)
    return plugin


def load_shipped(kind: str, name: str) -> None:
    """Loads the plug-in of this name that comes with zoo, if there is one.

    Args:
        kind: `zoo.config.shipped.MEASURES` or `DRAWINGS`.
        name: of the measure or the drawing.

    Raises:
        ConfigError: a plug-in of the user has the name of its file, or of what it registers.
    """
    if (path := shipped_plugin(kind, name)) is not None:
        _execute(Plugin(path.name, _read(path), path, shipped=True))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"plug-in {path} cannot be read: {error}") from error


def _execute(plugin: Plugin) -> None:
    """Executes a plug-in, unless it is loaded already or is being executed (it may load itself)."""
    present = _loaded.get(plugin.name) or next((one for one in _executing if one.name == plugin.name), None)
    if present is not None:
        if present.text != plugin.text:
            raise ConfigError(
                f"plug-in {plugin.origin} has another text than {present.origin}, which is loaded; one process can "
                f"use one version of a plug-in\n{difference(present, plugin)}"
            )
        return
    module = types.ModuleType(f"zoo_plugin_{Path(plugin.name).stem}")
    module.__file__ = str(plugin.origin)
    # Classes find their module by its name.
    sys.modules[module.__name__] = module
    _executing.append(plugin)
    try:
        exec(compile(plugin.text, str(plugin.origin), "exec"), module.__dict__)
        _add_all(plugin.registrations)
    except ConfigError as error:
        raise ConfigError([f"plug-in {plugin.origin}: {problem}" for problem in error.problems]) from error
    except (Exception, SystemExit) as error:
        line = line_of(error, str(plugin.origin))
        raise ConfigError(f"plug-in {plugin.origin}{line} fails: {type(error).__name__}: {error}") from error
    finally:
        _executing.pop()
    if not plugin.registrations:
        raise ConfigError(f"plug-in {plugin.origin} registers nothing; see zoo.plugin.register")
    _loaded[plugin.name] = plugin


def kinds_of(plugin: Plugin) -> list[Kind]:
    """Returns the kinds that a plug-in registers."""
    return [kind for one in plugin.registrations if isinstance(kind := getattr(one, "kind", None), Kind)]


def unload(plugin: Plugin) -> None:
    """Removes a plug-in and what it has registered."""
    for registration in reversed(plugin.registrations):
        registration.remove()
    del _loaded[plugin.name]


def is_reserved(kind: str, name: str) -> bool:
    """Returns whether a plug-in that comes with zoo registers this name. A file of the same name may
    replace it, such as the text that an older run has stored.

    Args:
        kind: `zoo.config.shipped.MEASURES` or `DRAWINGS`.
        name: of a measure or a drawing.
    """
    path = shipped_plugin(kind, name)
    return path is not None and not (_executing and _executing[-1].name == path.name)


def resolve_entries(entries: Iterable[str]) -> tuple[str, ...]:
    """Returns the field `plugins` with every file as its reference; loads the files.

    Args:
        entries: paths of files, and references.

    Raises:
        ConfigError: a file cannot be loaded, or a reference names a text that is not loaded.
    """
    found: dict[str, None] = {}
    for entry in entries:
        if not is_reference(entry):
            found[load_plugin(entry).reference] = None
        elif entry in _by_reference():
            found[entry] = None
        else:
            raise ConfigError(f"plugins={entry!r} is not loaded; name its file with --plugin")
    return tuple(found)


def is_reference(entry: str) -> bool:
    """Returns whether an entry of the field `plugins` is "FILE.py:HASH"."""
    name, _, digits = entry.rpartition(":")
    return (
        name.endswith(".py")
        and "/" not in name
        and len(digits) == HASH_DIGITS
        and not set(digits) - set("0123456789abcdef")
    )


def load_stored(folder: Path, entries: Sequence[str]) -> None:
    """Loads the plug-ins that a run or a sweep has stored.

    Args:
        folder: folder of the run or the sweep.
        entries: references, from its config.

    Raises:
        ConfigError: a text is missing, was changed, differs from the loaded one, or is not trusted.
    """
    for entry in entries:
        if not isinstance(entry, str) or not is_reference(entry):
            raise ConfigError(f"{folder}: plugins={entry!r} is not FILE.py:HASH, as zoo writes it")
        if entry in _by_reference():
            continue
        name = entry.rpartition(":")[0]
        path = folder / FOLDER / name
        if not path.is_file():
            raise ConfigError(
                f"{folder} was made with the plug-in {name}, but {path} is missing; name it with --plugin"
            )
        plugin = Plugin(name, _read(path), path)
        if plugin.reference != entry:
            raise ConfigError(f"{path} was changed after the run had started; its text is no longer that of {entry}")
        if name in _loaded:
            raise ConfigError(
                f"{folder} was made with another text of the plug-in {name} than {_loaded[name].origin}; continue it "
                f"with {path}, or use another folder\n{difference(plugin, _loaded[name])}"
            )
        if not (_trusts_stored or is_trusted(plugin)):
            raise ConfigError(
                f"{folder} was made with the plug-in {path}, which would be executed on this machine: read it, then "
                "add --trust-plugin"
            )
        _execute(plugin)


def store(folder: Path, entries: Iterable[str]) -> None:
    """Writes the texts of loaded plug-ins to the folder of a run or a sweep.

    Args:
        folder: folder of the run or the sweep.
        entries: references of loaded plug-ins.
    """
    for plugin in named(entries):
        (folder / FOLDER).mkdir(exist_ok=True)
        write_atomic(folder / FOLDER / plugin.name, plugin.text)


def record(entries: Iterable[str]) -> list[dict[str, str]]:
    """Returns name and whole sha256 of loaded plug-ins, for the record of a run or a sweep."""
    return [{"name": plugin.name, "sha256": plugin.sha256} for plugin in named(entries)]


def named(entries: Iterable[str]) -> list[Plugin]:
    """Returns the loaded plug-ins of these references."""
    by_reference = _by_reference()
    return [by_reference[entry] for entry in entries]


def _by_reference() -> dict[str, Plugin]:
    return {plugin.reference: plugin for plugin in _loaded.values()}


def difference(one: Plugin, other: Plugin) -> str:
    """Returns the difference of two texts as a unified diff, of at most `DIFF_LINES` lines."""
    lines = list(
        difflib.unified_diff(
            one.text.splitlines(), other.text.splitlines(), str(one.origin), str(other.origin), lineterm="", n=1
        )
    )
    more = [f"... and {len(lines) - DIFF_LINES} more lines"] if len(lines) > DIFF_LINES else []
    return "\n".join([*lines[:DIFF_LINES], *more])


def _trusted_folder() -> Path:
    return cache_directory() / "trusted_plugins"


def is_trusted(plugin: Plugin) -> bool:
    """Returns whether the user of this machine has named a file with this text before, or a file with
    this text comes with zoo.
    """
    return (_trusted_folder() / plugin.sha256).is_file() or any(
        (path := shipped_plugin(kind, Path(plugin.name).stem)) is not None and _read(path) == plugin.text
        for kind in (MEASURES, DRAWINGS)
    )


def _remember(plugin: Plugin) -> None:
    folder = _trusted_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / plugin.sha256).is_file():
        write_atomic(folder / plugin.sha256, f"{plugin.origin.resolve()}\n")
