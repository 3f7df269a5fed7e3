"""Config files and command-line overrides: `configs/llama.py:tiny`, `runs/x/config.json`,
`--config.model.dim=64`.
"""

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_collections

from zoo.config import plugins
from zoo.config.field_values import checked_value, parse_value
from zoo.config.fields import BY_PATH, FIELDS
from zoo.config.fields.renamed import RENAMED, without_unused
from zoo.config.resolve import default, from_flat
from zoo.config.scopes import GROUPS, KINDS, SIDES, field_at, scoped, split_path, unknown_field
from zoo.config.shipped import CONFIGS, locate
from zoo.errors import ConfigError, did_you_mean, line_of, listed, shortened, shown, why_no_file
from zoo.files import read_json
from zoo.nested import flatten


def import_file(path: Path, what: str) -> Any:
    """Imports a Python file by path. It is executed, so it must be trusted like any script.

    Raises:
        ConfigError: the file does not exist, or its import fails.
    """
    if not path.is_file():
        raise ConfigError(f"{what} {path} {why_no_file(path, '*.py')}")
    spec = importlib.util.spec_from_file_location(f"zoo_file_{path.stem}", path)
    if spec is None:
        raise ConfigError(f"{what} {path} is not a Python (.py) file")
    module = importlib.util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        line = line_of(error, str(path))
        raise ConfigError(f"{what} {path}{line} fails on import: {type(error).__name__}: {error}") from error
    finally:
        sys.dont_write_bytecode = writes
    return module


def call_with_argument(function: Callable[..., Any], argument: str | None, what: str) -> Any:
    """Calls `get_config` or `get_experiment`, with the part after ":" if there is one."""
    if argument is not None and not inspect.signature(function).parameters:
        raise ConfigError(f"{what} takes no argument, got {shown(argument)}")
    try:
        return function() if argument is None else function(argument)
    except ConfigError as error:
        line = line_of(error, function.__code__.co_filename).removesuffix(",")
        raise ConfigError([f"{what}{line}: {problem}" for problem in error.problems]) from error
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())
        # ml_collections lists the whole config between the unknown name and its suggestion.
        text = re.sub(r" Other fields present: .*?(Did you mean .*)?$", r" \1", text)
        line = line_of(error, function.__code__.co_filename)
        raise ConfigError(f"{what}{line} fails: {type(error).__name__}: {text}{_renamed_hint(error)}") from error


def _renamed_hint(error: Exception) -> str:
    """Returns the new name of a field whose old name ml_collections does not know."""
    # str() of a KeyError is the repr of its message, in which quotes may be escaped.
    name = re.match(r"[\\\"']*(?:Key )?[\\\"']+(\w+)[\\\"']", str(error))
    if not isinstance(error, AttributeError | KeyError) or name is None:
        return ""
    found = [f"{old} is now called {new}" for old, new in RENAMED.items() if old.rpartition(".")[2] == name[1]]
    return "".join(f" ({line})" for line in found)


def load(spec: str) -> ml_collections.ConfigDict:
    """Loads an unresolved config from `FILE.py[:argument]`, from the name of one that comes with zoo
    (`llama:tiny`) or from a run's `config.json` (which executes nothing but the run's plug-ins, if
    the user trusts them).

    In a `config.json` a `data.tokenizer.path` that is "." or no longer exists becomes the run's own
    folder, wherever that is now.

    Raises:
        ConfigError: the file is missing or broken, has no `get_config`, or has unknown fields; the
            run has plug-ins that are not trusted.
    """
    path, argument = locate(spec, CONFIGS)
    if path.is_dir() and (path / "config.json").is_file():
        path = path / "config.json"
    if path.suffix == ".json":
        if not path.is_file():
            raise ConfigError(f"config file {path} {why_no_file(path)}")
        try:
            content = read_json(path)
            if not isinstance(content, dict):
                raise ValueError("not a JSON object")
            flat = {"plugins": []} | without_unused(flatten(content))
        except ValueError as error:
            raise ConfigError(f"config file {path} is not a config: {error}") from error
        plugins.load_stored(path.parent, _listed(flat["plugins"]))
        if unknown := [name for name in flat if field_at(name) is None]:
            raise ConfigError([f"config file {path}: {unknown_field(name)}" for name in unknown])
        return from_flat(_with_own_tokenizer(flatten(default()) | flat, path.parent))
    module = import_file(path, "config file")
    if not hasattr(module, "get_config"):
        raise ConfigError(f"config file {path} has no function get_config")
    config = call_with_argument(module.get_config, argument, f"config file {spec}")
    if not isinstance(config, ml_collections.ConfigDict):
        raise ConfigError(f"config file {path}: get_config returned {type(config).__name__}, expected a ConfigDict")
    # One that was made from nothing has only the fields that it sets.
    flat = flatten(config)
    if flatten(default()).keys() - flat.keys():
        if unknown := [name for name in flat if field_at(name) is None]:
            raise ConfigError([f"config file {path}: {unknown_field(name)}" for name in unknown])
        config = from_flat(flatten(default()) | flat)
    return config


def load_with_plugins(spec: str) -> ml_collections.ConfigDict:
    """Loads a config for new runs: it also names the plug-ins that this process has loaded, which
    the config of an earlier run may not name.
    """
    config = load(spec)
    return override(config, {"plugins": tuple(dict.fromkeys((*config.plugins, *plugins.references())))})


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _with_own_tokenizer(flat: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Replaces a tokenizer path by the run's folder, which keeps a copy of the tokenizer."""
    path = flat["data.tokenizer.path"]
    if flat["data.tokenizer.kind"] != "file" or not isinstance(path, str) or not path:
        return flat
    lost = not Path(path).exists() and (folder / "tokenizer.json").is_file()
    return flat | {"data.tokenizer.path": str(folder.resolve())} if path == "." or lost else flat


def override(config: Mapping[str, Any], changes: Mapping[str, Any]) -> ml_collections.ConfigDict:
    """Returns a copy of `config` with `changes`, a flat dict of values or of texts as typed on a
    command line.

    Where a change makes another choice (say `model.position.kind`), fields that only the old choice
    reads return to their defaults.

    Raises:
        ConfigError: unknown paths; all of them are named at once, with the values that are wrong.
    """
    return from_flat(override_fields(flatten(config), changes))


def override_fields(given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Does the work of `override` on a flat config, which is several times faster."""
    if "plugins" in changes:
        changes = {**changes, "plugins": plugins.resolve_entries(_entries(changes["plugins"]))}
    fields = {path: field_at(path) for path in changes}
    parsed = {
        path: parse_value(fields[path], value) if fields[path] and isinstance(value, str) else value
        for path, value in changes.items()
    }
    if None in fields.values():
        # Values that `resolve` would refuse are named along with the unknown fields.
        raise ConfigError(
            [
                problem
                for path, field in fields.items()
                if (problem := checked_value(field, parsed[path])[1] if field else unknown_field(path))
            ]
        )
    flat = dict(given) | parsed
    for field in FIELDS:
        # Another position scheme, for example, has no use for the length of a learned table.
        if field.when and field.when[0] in changes and field.path not in changes and not field.is_read(flat):
            flat[field.path] = field.default
    flat = {path: value for path, value in flat.items() if path in changes or not _stale(path, flat, changes)}
    for names, scopes in (("model.layers.pattern", KINDS), ("optimizer.groups", GROUPS)):
        if names in changes and isinstance(flat[names], tuple | list):
            # Kinds of layers that the new pattern does not name are removed with the old pattern,
            # and groups like them.
            named = {f"{scopes}.{name}" for name in flat[names]}
            flat = {
                path: value
                for path, value in flat.items()
                if path in changes or not path.startswith(f"{scopes}.") or split_path(path)[0] in named
            }
    if "model.architecture" in changes and flat["model.architecture"] != "encoder_decoder":
        sides = tuple(f"{side}." for side in SIDES)
        flat = {path: value for path, value in flat.items() if path in changes or not path.startswith(sides)}
    return flat


def _entries(value: Any) -> list[str]:
    """Returns the entries of the field `plugins`, as text or as a sequence."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, tuple | list) or not all(isinstance(part, str) for part in parts):
        raise ConfigError(f"plugins={shown(value)}: expected comma-separated names")
    return [part.strip() for part in parts if part.strip()]


def _stale(path: str, flat: Mapping[str, Any], changes: Mapping[str, Any]) -> bool:
    """Returns whether a scope's field was set for a choice that `changes` replaces, there or in the
    whole model.
    """
    if path in BY_PATH or (field := field_at(path)) is None or (condition := field.when) is None:
        return False
    choice = scoped(split_path(path)[0], condition[0])
    return (choice in changes or condition[0] in changes) and flat.get(choice, flat[condition[0]]) not in condition[1]


def parse_overrides(arguments: Sequence[str]) -> dict[str, str]:
    """Parses `--config.a.b=value`, `--config.a.b value` and `--noconfig.a.b`; the last value of a
    path wins.

    Raises:
        ConfigError: naming every other argument.
    """
    changes: dict[str, str] = {}
    problems = []
    queue = list(arguments)
    while queue:
        argument = queue.pop(0)
        if argument.startswith("--noconfig."):
            changes[argument.removeprefix("--noconfig.")] = "false"
        elif argument.startswith("--config."):
            path, equals, value = argument.removeprefix("--config.").partition("=")
            if not equals:
                if not queue or queue[0].startswith("--"):
                    problems.append(f"{argument} needs a value: {argument}=VALUE")
                    continue
                value = queue.pop(0)
            changes[path] = value
        else:
            hint = did_you_mean(argument.lstrip("-").partition("=")[0], BY_PATH) if argument.startswith("-") else ""
            problems.append(
                f"unknown argument {shortened(argument)}{hint}; config fields are set by --config.PATH=VALUE"
            )
    if problems:
        raise ConfigError(problems)
    return changes


def split_argument(argument: str) -> list[str]:
    """Splits a config file's argument "from=RUN,field=value,..." at its commas, but not inside the
    name of a run that exists: earlier versions wrote commas into names of folders.
    """
    parts = argument.split(",")
    if parts[0].startswith("from="):
        for count in range(len(parts), 1, -1):
            start = ",".join(parts[:count])
            if (Path(start.removeprefix("from=")) / "config.json").is_file():
                return [start, *parts[count:]]
    return parts


def parse_argument(argument: str, sizes: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, str]]:
    """Parses a config file's argument "size,field=value,...".

    Args:
        argument: text after the ":" of `FILE.py:argument`.
        sizes: the published sizes; `tiny` and `smoke` always exist (see `zoo.config.presets`).

    Returns:
        The name of the size and the overrides.
    """
    size, *options = argument.split(",")
    names = [*sizes, "tiny", "smoke"]
    problems = []
    if size not in names:
        problems.append(f"size {shown(size)} is not one of {listed(names)}{did_you_mean(size, names)}")
    problems += [f"option {shown(option)} is not field=value" for option in options if "=" not in option]
    if problems:
        raise ConfigError(problems)
    return size, dict(option.split("=", 1) for option in options)
