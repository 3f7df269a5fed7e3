"""Ablations of a recipe: an arm without each of its features, or with each of them alone, and arms for
pairs of features.

A recipe is a config, its features are the fields in which it differs from a base config, in groups
that make sense only together.
"""

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import ml_collections

from zoo import config
from zoo.config.scopes import GROUPS, KINDS, SIDES, split_path
from zoo.errors import ConfigError, did_you_mean, listed, shown
from zoo.lab.experiment import Experiment
from zoo.lab.planning.adhoc import short_name
from zoo.nested import flatten

Features = dict[str, dict[str, Any]]
# The factor, and its levels beside those that are named by a feature or by two.
LEAVE_OUT, ADD = "leave_out", "add"
NOTHING, EVERYTHING = "nothing", "everything"
SEPARATOR = "+"
# Differences that are part of the question.
ALLOWED = ("parameters", "flops", "levels")
# Up to as many features, every pair is an arm by default: 4 features and 12 arms.
PAIRED = 4


def ablation(
    recipe: str,
    base: str,
    adds: bool = False,
    groups: Path | None = None,
    pairs: str | None = None,
    name: str | None = None,
) -> Experiment:
    """Returns the experiment of `--leave-one-out RECIPE --base BASE`, or of `--add-one-in`.

    Its arms are named by what is left out of the recipe, or added to the base: nothing, each feature,
    pairs of features, and everything.

    Args:
        recipe, base: config files with their arguments.
        adds: features are added to the base, in place of being left out of the recipe.
        groups: a file of groups of fields, see `named_groups`.
        pairs: "all", "none", or pairs such as "rope+qk_norm,rope+gate"; by default all of them, if
            there are at most `PAIRED` features.
        name: of the sweep, by default from the names of both configs.

    Raises:
        ConfigError: the configs do not differ, or a group or a pair names nothing.
    """
    start, end = config.load_with_plugins(base), config.load_with_plugins(recipe)
    start = config.override(start, _alike(start, end))
    found = features(start, end, named_groups(groups) if groups else {})
    if len(found) < 2:
        raise ConfigError(
            f"{recipe} differs from {base} in {'one feature' if found else 'nothing'}; two or more are needed, and "
            "--vary compares values of one"
        )
    chosen = _pairs(pairs, list(found))
    factor = ADD if adds else LEAVE_OUT
    levels = {NOTHING: (), **{one: (one,) for one in found}, **{SEPARATOR.join(pair): pair for pair in chosen}}
    levels[EVERYTHING] = tuple(found)

    def changes(named: Sequence[str]) -> dict[str, Any]:
        kept = named if adds else [one for one in found if one not in named]
        return _with_parameters(start, {path: value for one in kept for path, value in found[one].items()})

    stems = [config.split_spec(spec)[0].stem for spec in (recipe, base)]
    what = f"each feature of {recipe} add to {base}" if adds else f"{recipe} lose without each of its features"
    return Experiment(
        name=name or f"{factor}-{stems[0]}-{stems[1]}",
        question=f"What does {what}?",
        base=start,
        factors={factor: {level: changes(named) for level, named in levels.items()}},
        allow=ALLOWED,
    )


def features(base: Mapping[str, Any], recipe: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> Features:
    """Returns the fields in which a recipe differs from a base with their values in the recipe, by
    feature.

    A group of `groups` is a feature. Of the other fields, one that the kind of the base or of the
    recipe does not read belongs to the feature of the kind, e.g. `model.position.theta` to
    `model.position.kind`. All kinds of layers are one feature, all groups of parameters, each side of
    an encoder-decoder, and what layers share with how they share it. A feature has the shortest name
    that tells its first field apart.

    Args:
        base, recipe: configs, not resolved.
        groups: {name: patterns of paths}.

    Raises:
        ConfigError: the recipe lacks a field of a kind or a group that both have, a group matches no
            field, or a field belongs to two groups.
    """
    left = _scopes(base) - _scopes(recipe)
    different = {
        path: values
        for path, values in config.difference(base, recipe).items()
        # Kinds of layers and groups that only the base has leave it with their names.
        if path not in IGNORED and (split_path(path) or ("",))[0] not in left
    }
    if missing := [path for path, (_, value) in different.items() if value is None]:
        raise ConfigError(f"the recipe lacks {listed(missing)}, which the base has; set the same fields in both")
    named: dict[str, str] = {}
    problems = []
    for name, patterns in groups.items():
        for pattern in patterns:
            if not (matching := [path for path in different if fnmatchcase(path, pattern)]):
                near = did_you_mean(pattern, different)
                problems.append(f"group {name}: {shown(pattern)} is no field in which the configs differ{near}")
            others = {path: named[path] for path in matching if named.get(path, name) != name}
            problems += [f"{path} is in group {other} and in group {name}" for path, other in others.items()]
            named |= dict.fromkeys(matching, name)
    if problems:
        raise ConfigError(problems)
    rest = {path: both for path, both in different.items() if path not in named}
    found: Features = {name: {} for name in groups}
    for path, (_, value) in different.items():
        feature = named.get(path) or short_name(_first(path, rest))
        if path not in named and feature in groups:
            problems.append(f"group {feature} has the name of a feature that it does not contain, {path}; rename it")
        found.setdefault(feature, {})[path] = value
    if problems:
        raise ConfigError(problems)
    return found


def _scopes(settings: Mapping[str, Any]) -> set[str]:
    """Returns the kinds of layers and the groups of parameters that a config names."""
    names = {KINDS: "model.layers.pattern", GROUPS: f"{GROUPS}s"}
    flat = flatten(settings)
    return {f"{scopes}.{name}" for scopes, path in names.items() for name in flat[path]}


def _alike(base: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a recipe that it writes out and the base derives, with the same value."""
    one, other = (flatten(config.resolve(each)) for each in (base, recipe))
    different = config.difference(base, recipe)
    return {path: value for path, (_, value) in different.items() if path in one and one[path] == other.get(path)}


def _with_parameters(base: ml_collections.ConfigDict, changes: dict[str, Any]) -> dict[str, Any]:
    """Returns the changes without groups of parameters that have none in the changed model, such as
    that of an untied head where the head is tied.
    """
    changed = config.override(base, changes)
    if not changed.optimizer.groups:
        return changes
    from zoo.models.parameter_groups import groups_without_parameters

    try:
        empty = groups_without_parameters(config.resolve(changed))
    except ConfigError:
        return changes  # The plan refuses the arm, and says which it is.
    if not empty:
        return changes
    left = tuple(name for name in changed.optimizer.groups if name not in empty)
    scopes = tuple(f"{GROUPS}.{name}." for name in empty)
    return {path: value for path, value in changes.items() if not path.startswith(scopes)} | {f"{GROUPS}s": left}


# Fields that are no part of a recipe: where and how its model is computed and reported.
IGNORED = ("seed", "plugins", "model.scan_layers", "model.remat", *config.NOT_RESULT_RELEVANT)
DISTINCT, SHARING = "model.layers.distinct", "model.layers.sharing"


def _first(path: str, different: Mapping[str, tuple[Any, Any]]) -> str:
    """Returns the field by which a feature is named, for any of its fields.

    Args:
        path: path of the field.
        different: {path: (value in the base, value in the recipe)}.
    """
    if path == f"{KINDS.rpartition('.')[0]}.pattern" or path.startswith(f"{KINDS}."):
        return f"{KINDS.rpartition('.')[0]}.pattern"
    if path == f"{GROUPS}s" or path.startswith(f"{GROUPS}."):
        return f"{GROUPS}s"
    scope = split_path(path)
    if scope is not None and scope[0] in SIDES:
        return scope[0]
    if path == SHARING and DISTINCT in different:
        # Without weights that layers share, nothing tells which of them do.
        return DISTINCT
    found = config.field_at(path)
    above, readers = found.when if found is not None and found.when else ("", ())
    needs = above in different and any(kind not in readers for kind in different[above])
    return _first(above, different) if needs else path


def named_groups(file: Path) -> dict[str, list[str]]:
    """Reads groups of fields from a TOML file: NAME = ["path", "path.*"].

    Raises:
        ConfigError: the file is missing, no TOML, or has something else.
    """
    try:
        read = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--groups {file}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"--groups {file}: {error}") from None
    problems = []
    for name, patterns in read.items():
        if not isinstance(patterns, list) or not patterns or not all(isinstance(one, str) for one in patterns):
            problems.append(f"--groups {file}: {name}: expected a list of paths of fields, got {shown(patterns)}")
        if SEPARATOR in name or "," in name or name in (NOTHING, EVERYTHING):
            problems.append(f"--groups {file}: {shown(name)} cannot be a group's name; use letters, digits, _ and .")
    if problems:
        raise ConfigError(problems)
    return read


def _pairs(text: str | None, names: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the pairs that have arms, but for the one that is everything."""
    every = list(itertools.combinations(names, 2)) if len(names) > 2 else []
    if text == "none" or (text is None and len(names) > PAIRED):
        return []
    if text in (None, "all"):
        return every
    found, problems = [], []
    for part in text.split(","):
        pair = part.strip().split(SEPARATOR)
        unknown = [name for name in pair if name not in names]
        if len(pair) != 2 or pair[0] == pair[-1] or unknown:
            near = did_you_mean(unknown[0], names) if unknown else ""
            problems.append(f"--pairs {shown(part)}: expected two of {listed(names)}, as A{SEPARATOR}B{near}")
        else:
            found.append(tuple(sorted(pair, key=names.index)))
    if problems:
        raise ConfigError(problems)
    return [pair for pair in dict.fromkeys(found) if pair in every]
