"""Resolution of a config: defaults, types, derived values, and all problems reported at once."""

import functools
import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import ml_collections

from zoo.config import plugins
from zoo.config.constraints.combinations import validate_combination
from zoo.config.field import as_given
from zoo.config.field_values import checked_value
from zoo.config.fields import AUTO, BY_PATH, FIELDS, IGNORED_BY, NOT_RESULT_RELEVANT, SEQUENCE_TASKS, TASKS
from zoo.config.kinds import ATTENTION_KINDS, FEED_FORWARD_KINDS, KIND_TABLES, OBJECTIVE_KINDS, OPTIMIZER_KINDS
from zoo.config.kinds.attention_kinds import KEYS, width_fields
from zoo.config.scopes import derivable, field_at, is_group, scoped, scopes_in, unknown_field
from zoo.errors import ConfigError
from zoo.nested import flatten, unflatten

ResolvedConfig = ml_collections.FrozenConfigDict


class InvalidCombination(ConfigError):
    """Values that are right one by one and cannot be combined.

    Args:
        problems: one line for each.
        fields: the flat config, with what could be derived of it.
    """

    def __init__(self, problems: list[str], fields: dict[str, Any]):
        super().__init__(problems)
        self.fields = fields


def default() -> ml_collections.ConfigDict:
    """Returns a fresh config with every field at its default and with the plug-ins that are loaded,
    locked against unknown names.
    """
    return from_flat({field.path: field.default for field in FIELDS} | {"plugins": plugins.references()})


def from_flat(flat: Mapping[str, Any]) -> ml_collections.ConfigDict:
    """Builds a locked config from {"model.dim": 256, ...}; lists become tuples.

    `resolve` checks the types, with better messages than ConfigDict has.
    """
    values = {path: tuple(value) if isinstance(value, list) else value for path, value in flat.items()}
    return _groups_of_fields(unflatten(values), type_safe=False).lock()


def _groups_of_fields(tree: Mapping[str, Any], type_safe: bool) -> ml_collections.ConfigDict:
    """Returns a nested dict as a ConfigDict.

    It sets items, because ConfigDict(tree) sets attributes, which takes five times as long.
    """
    config = ml_collections.ConfigDict(type_safe=type_safe)
    for name, value in tree.items():
        config[name] = _groups_of_fields(value, type_safe) if isinstance(value, dict) else value
    return config


def to_plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the config as nested dicts of plain JSON types."""
    return unflatten(
        {path: list(value) if isinstance(value, tuple) else value for path, value in flatten(config).items()}
    )


def unused_fields(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yields a line for each field that was changed although nothing reads it."""
    architecture = flat["model.architecture"]
    for field in FIELDS:
        if flat[field.path] == field.default:
            continue
        if field.path.startswith(IGNORED_BY.get(architecture, ())):
            yield (
                f"{field.path}={as_given(flat[field.path])} has no effect: model.architecture={architecture} does not "
                f"read it; leave it {field.default_as_given}"
            )
        elif not field.is_read(flat):
            path, values = field.when
            yield (
                f"{field.path}={as_given(flat[field.path])} has no effect: it is read only when {path} is "
                f"{' or '.join(map(str, values))}, and {path} is {flat[path]}; leave it {field.default_as_given}"
            )
    for scope, changes in scopes.items():
        if scope == "model.encoder" and "model.attention.cross_kv_heads" in changes:
            yield (
                "model.encoder.attention.cross_kv_heads has no effect: an encoder has no cross-attention; leave it out"
            )
        for path in changes:
            field = field_at(scoped(scope, path))
            if not field.is_read(flat | changes):
                yield (
                    f"{scoped(scope, path)}={as_given(changes[path])} has no effect: it is read only when "
                    f"{field.when[0]} is {' or '.join(map(str, field.when[1]))}, and "
                    f"there it is {(flat | changes)[field.when[0]]}; leave it out"
                )


def _derive_heads(flat: dict[str, Any], fill: Callable[[str, Any], None]) -> None:
    """Derives the number and width of heads."""
    heads, dim = flat["model.attention.num_heads"], flat["model.dim"]
    if flat["model.attention.kind"] in ATTENTION_KINDS.having("heads"):
        fill("model.attention.num_kv_heads", heads)
        fill("model.attention.num_query_heads", heads)
        if flat["model.architecture"] == "encoder_decoder":
            fill("model.attention.cross_kv_heads", flat["model.attention.num_kv_heads"])
    if dim % heads == 0:
        fill("model.attention.head_dim", dim // heads)


def _derive_scale(flat: dict[str, Any], fill: Callable[[str, Any], None]) -> None:
    """Derives the factor on the scores, once the widths of queries and keys are known."""
    widths = [flat[path] for path in width_fields(flat["model.attention.kind"], KEYS)]
    if AUTO not in widths:
        # sqrt(K0) / K under muP, which is 1 / sqrt(K) at the width K0 of the base (Yang et al. 2022,
        # definition 4.1). Cosines do not grow with K.
        width, base = sum(widths), flat["model.base_head_dim"]
        scales = {"cosine": 1.0, "unit": width**0.5}
        scale = base**0.5 / width if base else width**-0.5
        fill("model.attention.scale", scales.get(flat["model.attention.qk_norm"], scale))


def _derive(flat: dict[str, Any], vocab_size: int | None) -> None:
    """Replaces `auto` values in place; `validate_combination` reports what cannot be derived."""

    ignored = IGNORED_BY.get(flat["model.architecture"], ())

    def fill(path: str, value: Any) -> None:
        if flat[path] == AUTO and not path.startswith(ignored):
            flat[path] = value

    length = flat["data.sequence_length"]
    if vocab_size:
        fill("model.vocab_size", vocab_size)
    dim = flat["model.dim"]
    kind = flat["model.attention.kind"]
    if kind in ATTENTION_KINDS.having("heads", "state"):
        _derive_heads(flat, fill)
    for table in KIND_TABLES.values():
        for path, value in table.derive(flat).items():
            fill(path, value)
    if kind in ATTENTION_KINDS.having("heads"):
        _derive_scale(flat, fill)
    if flat["model.ffn.kind"] in FEED_FORWARD_KINDS.having("hidden"):
        fill("model.ffn.hidden_dim", 4 * dim)
    width = flat["model.base_dim"] or dim
    fill("model.init.embedding_std", flat["model.init.std"] if flat["model.init.kernel"] == "normal" else width**-0.5)
    if (task := flat["objective.kind"]) in SEQUENCE_TASKS:
        fill("model.head.pooling", {"decoder": "last", "elmo": "mean"}.get(flat["model.architecture"], "first"))
    if task in OBJECTIVE_KINDS.having("prefix"):
        fill("objective.prefix_length", max(1, length // 2))
    if not flat["training.microbatch_size"]:
        fill("training.accumulation_steps", 1)
    fill("training.eval_batches", 0 if task in TASKS else 40)
    fill("training.eval_every", eval_interval(flat["training.steps"], flat["training.eval_batches"]))


def eval_interval(steps: int, batches: int) -> int:
    """Returns the steps between evaluations: a twentieth of all, so that curves have a shape.

    A batch of an evaluation costs about a third of a step. Where twenty evaluations would cost more
    than a sixth of the training, or all of the validation split is evaluated (0 batches), there are
    eight. The last of them is that of the last step, so intervals are rounded up.
    """
    return max(1, math.ceil(steps / (20 if 0 < 40 * batches <= steps else 8)))


def _derive_scope(given: dict[str, Any], derived: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Returns the overrides of a scope and the values derived from them that differ from those of
    the whole model.

    Args:
        given: the flat config before derivation.
        derived: the flat config after it.
        changes: the overrides of the scope.
    """
    merged = given | changes
    _derive(merged, None)
    follows = {
        path: value
        for path, value in merged.items()
        if path.startswith("model.") and given[path] == AUTO and value != AUTO and value != derived[path]
    }
    has_heads = merged["model.attention.kind"] in ATTENTION_KINDS.having("heads", "state")
    if has_heads and merged["model.attention.head_dim"] == AUTO:
        # Heads that do not divide the width here: left to `validate_combination`, as for the whole
        # model.
        follows["model.attention.head_dim"] = AUTO
    return changes | {path: value for path, value in follows.items() if path not in ("model.vocab_size",)}


def _derive_group(given: dict[str, Any], derived: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Does the work of `_derive_scope` for a group of parameters, whose kind of optimizer may be
    another.
    """
    merged = given | changes
    return changes | {
        path: value
        for path, value in OPTIMIZER_KINDS.derive(merged).items()
        if merged[path] == AUTO and value != derived[path]
    }


def resolve(config: Mapping[str, Any], vocab_size: int | None = None) -> ResolvedConfig:
    """Checks a whole config and derives its `auto` values.

    Args:
        config: nested config; missing fields take their defaults.
        vocab_size: ids that the data need, for tokenizers where only the data know (`characters`,
            `file`); without it `model.vocab_size` stays `auto` for them.

    Returns:
        A frozen config with every field, in the order of the field table. Resolving a resolved
        config returns the same values.

    Raises:
        ConfigError: with one line for every problem.
    """
    return _frozen(tuple(resolve_fields(flatten(config), vocab_size).items()))


@functools.lru_cache(maxsize=256)
def _frozen(items: tuple[tuple[str, Any], ...]) -> ResolvedConfig:
    # Making it takes longer than everything else, and a sweep resolves the same configs repeatedly.
    return ml_collections.FrozenConfigDict(_groups_of_fields(unflatten(dict(items)), type_safe=True))


def _loaded_plugins(value: Any) -> Any:
    """Returns the field `plugins` as references, and an unreadable value as it is."""
    value = (value,) if isinstance(value, str) else value
    if not isinstance(value, tuple | list) or not all(isinstance(entry, str) for entry in value):
        return value
    return plugins.resolve_entries(value)


def _tokenizer_ids(flat: Mapping[str, Any]) -> int | None:
    """Returns how many ids the tokenizer and the objective need, or None where only the data know."""
    sizes = {"bytes": 257, "bpe": flat["data.tokenizer.vocab_size"], "unknown": flat["data.tokenizer.ids"]}
    ids = sizes.get(flat["data.tokenizer.kind"])
    if not ids:
        return None
    objective = flat["objective.kind"]
    if objective in OBJECTIVE_KINDS.having("spans"):
        return ids + flat["objective.sentinels"]
    if flat["data.row_format"] != "packed":
        return ids + 2  # [MASK] and the separator of sentences.
    return ids + 1 if objective in OBJECTIVE_KINDS.having("masking") else ids


def resolve_fields(given: Mapping[str, Any], vocab_size: int | None = None) -> dict[str, Any]:
    """Does the work of `resolve` on a flat config, which is several times faster."""
    # Loaded first, because the other fields may be those of its kinds.
    given = given | {"plugins": _loaded_plugins(given.get("plugins", ()))}
    problems = [unknown_field(path) for path in given if field_at(path) is None]
    flat: dict[str, Any] = {}
    for field in FIELDS:
        flat[field.path], problem = checked_value(field, given.get(field.path, field.default))
        if problem:
            problems.append(problem)
    overrides: dict[str, Any] = {}
    for path in given:
        if path not in BY_PATH and (field := field_at(path)) is not None:
            overrides[path], problem = checked_value(field, given[path])
            if problem:
                problems.append(problem)
    if problems:
        raise ConfigError(problems)
    scopes = scopes_in(overrides)
    problems += unused_fields(flat, scopes)
    before = dict(flat)
    vocab_size = vocab_size or _tokenizer_ids(flat)
    _derive(flat, vocab_size)
    scopes = {
        scope: (_derive_group if is_group(scope) else _derive_scope)(before, flat, changes)
        for scope, changes in sorted(scopes.items())
    }
    # An encoder reads no memory.
    scopes.get("model.encoder", {}).pop("model.attention.cross_kv_heads", None)
    problems += validate_combination(flat, scopes, vocab_size)
    if problems:
        raise InvalidCombination(list(dict.fromkeys(problems)), flat)
    for scope, changes in scopes.items():
        flat |= {scoped(scope, path): changes[path] for path in sorted(changes)}
    return flat


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Returns {path: (value in one, value in other)} for the fields that differ."""
    a, b = flatten(one), flatten(other)
    return {path: (a.get(path), b.get(path)) for path in {**a, **b} if a.get(path) != b.get(path)}


def chosen_differences(one: Mapping[str, Any], other: Mapping[str, Any], given: Collection[str] = ()) -> list[str]:
    """Returns the fields besides the seed that can change a result and in which two configs differ.

    Fields whose values follow from others are left out, unless only they differ. Stored configs may
    lack fields that were added later; these have their defaults.

    Args:
        one, other: the configs.
        given: fields whose values were given in one of them, and so follow from no others.
    """
    added = {field.path: field.default for field in FIELDS if field.added}
    # Compared as JSON: 1, 1.0 and True are three settings, although Python calls them equal.
    a, b = (
        {path: json.dumps(value, sort_keys=True) for path, value in result_relevant(added | flatten(side)).items()}
        for side in (one, other)
    )
    paths = [path for path in {**a, **b} if path != "seed" and a.get(path) != b.get(path)]
    return [path for path in paths if path in given or not derivable(path)] or paths


def result_relevant(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a flat config that can change a run's result."""
    return {path: value for path, value in flatten(config).items() if path not in NOT_RESULT_RELEVANT}


def identity(resolved: Mapping[str, Any]) -> str:
    """Returns the identity of a run: 16 hex digits of the sha256 of its result-relevant config."""
    relevant = result_relevant(resolved)
    for field in FIELDS:
        if field.added and relevant.get(field.path) == field.default:
            del relevant[field.path]
    canonical = json.dumps(relevant, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
