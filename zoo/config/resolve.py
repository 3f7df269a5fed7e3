"""From a config to a resolved one: defaults, types, derived values, and every problem found at once."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import ml_collections

from zoo.config.fields import ATTENTION_KERNELS, AUTO, BY_PATH, FIELDS, NOT_RESULT_RELEVANT, Field
from zoo.errors import ConfigError, did_you_mean

ResolvedConfig = ml_collections.FrozenConfigDict


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turns {"a.b": 1} into {"a": {"b": 1}}."""
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, leaf = path.split(".")
        node = nested
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    return nested


def flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """Turns a nested config into {"model.dim": 256, ...}, in the order of the config."""

    def walk(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for name, value in node.items():
            if isinstance(value, Mapping | ml_collections.ConfigDict | ml_collections.FrozenConfigDict):
                yield from walk(value, f"{prefix}{name}.")
            else:
                yield prefix + name, tuple(value) if isinstance(value, list) else value

    return dict(walk(config, ""))


def default() -> ml_collections.ConfigDict:
    """Returns a fresh config with every field at its default, locked against unknown names."""
    return from_flat({field.path: field.default for field in FIELDS})


def from_flat(flat: Mapping[str, Any]) -> ml_collections.ConfigDict:
    """Builds a locked config from {"model.dim": 256, ...}; types are checked by `resolve`, with better messages."""
    return ml_collections.ConfigDict(nest(flat), type_safe=False).lock()


def to_plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the config as nested dicts of plain JSON types."""
    return nest({path: list(value) if isinstance(value, tuple) else value for path, value in flatten(config).items()})


def parse_value(field: Field, text: str) -> Any:
    """Reads a value as typed on a command line; what cannot be read stays text and is refused by `resolve`."""
    text = text.strip() if field.kind is not str else text
    if field.auto and text == AUTO:
        return AUTO
    try:
        if field.kind is bool:
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        if field.kind is int:
            number = float(text)
            return int(number) if number == int(number) else text
        if field.kind is float:
            return float(text)
        if field.kind is tuple:
            return tuple(int(part) for part in text.strip("()[]").split(",") if part.strip())
    except (ValueError, KeyError, OverflowError):
        return text
    return text


def _checked(field: Field, value: Any) -> tuple[Any, str | None]:
    """Returns the value in the field's type, and what is wrong with it or None."""
    expected = {int: "a whole number", float: "a number", bool: "true or false", str: "text", tuple: "whole numbers with commas between"}
    if field.auto and value == AUTO and isinstance(value, str):
        return value, None
    wrong = f"{field.path}={value!r}: expected {expected[field.kind]}" + (f' or "{AUTO}"' if field.auto else "")
    if field.choices:
        if not isinstance(value, str) or value not in field.choices:
            names = ", ".join(field.choices) + (f", {AUTO}" if field.auto else "")
            return value, f"{field.path}={value!r} is not one of {names}{did_you_mean(str(value), field.choices)}"
        return value, None
    if field.kind is tuple:
        if isinstance(value, int) and not isinstance(value, bool):
            value = (value,)
        if not isinstance(value, tuple | list) or not all(isinstance(item, int) and not isinstance(item, bool) for item in value):
            return value, wrong
        value, numbers = tuple(value), value
    elif field.kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value, wrong
        value = float(value)
        if not math.isfinite(value):
            return value, f"{field.path}={value!r}: expected a finite number"
        numbers = (value,)
    elif not isinstance(value, field.kind) or (field.kind is int and isinstance(value, bool)):
        return value, wrong
    else:
        numbers = (value,) if field.kind is int else ()
    for number in numbers:
        if field.minimum is not None and number < field.minimum:
            return value, f"{field.path}={number!r} must be at least {field.minimum:g}"
        if field.above is not None and number <= field.above:
            return value, f"{field.path}={number!r} must be above {field.above:g}"
        if field.maximum is not None and number > field.maximum:
            return value, f"{field.path}={number!r} must be at most {field.maximum:g}"
    return value, None


def _inert(flat: dict[str, Any]) -> Iterator[str]:
    """Fields that were changed although nothing reads them."""
    for field in FIELDS:
        if field.when and flat[field.path] != field.default and flat[field.when[0]] not in field.when[1]:
            path, values = field.when
            yield (f"{field.path}={flat[field.path]!r} has no effect: it is read only when {path} is {' or '.join(values)}, "
                   f"and {path} is {flat[path]}; leave it at {field.default!r}")


def _derive(flat: dict[str, Any], vocab_size: int | None) -> None:
    """Fills `auto` values in place; a derivation that does not come out is left to `_impossible`."""

    def fill(path: str, value: Any) -> None:
        if flat[path] == AUTO:
            flat[path] = value

    if vocab_size:
        fill("model.vocab_size", vocab_size)
    if flat["model.position.kind"] == "learned":
        fill("model.position.max_length", flat["data.sequence_length"])
    heads, dim = flat["model.attention.num_heads"], flat["model.dim"]
    fill("model.attention.num_kv_heads", heads)
    if dim % heads == 0:
        fill("model.attention.head_dim", dim // heads)
    if flat["model.attention.head_dim"] != AUTO:
        fill("model.attention.scale", flat["model.attention.head_dim"] ** -0.5)
    fill("model.ffn.hidden_dim", 4 * dim)
    fill("model.init.embedding_std", flat["model.init.std"] if flat["model.init.kernel"] == "normal" else dim**-0.5)
    if flat["model.vocab_size"] != AUTO:
        chunk = max(1024, 2 ** round(math.log2(32e6 / (4 * flat["model.vocab_size"]))))
        fill("objective.chunk_tokens", 0 if chunk >= flat["data.batch_size"] * flat["data.sequence_length"] else chunk)


def _impossible(flat: dict[str, Any], vocab_size: int | None) -> Iterator[str]:
    """Combinations of valid values that cannot be built."""
    heads, kv_heads, dim = flat["model.attention.num_heads"], flat["model.attention.num_kv_heads"], flat["model.dim"]
    head_dim, position = flat["model.attention.head_dim"], flat["model.position.kind"]
    length, batch = flat["data.sequence_length"], flat["data.batch_size"]
    if head_dim == AUTO:
        yield f"model.dim={dim} does not divide by model.attention.num_heads={heads}; change one, or set model.attention.head_dim"
    if heads % kv_heads:
        yield f"model.attention.num_heads={heads} does not divide by model.attention.num_kv_heads={kv_heads}"
    if position == "rope" and head_dim != AUTO:
        rotated = head_dim * flat["model.position.fraction"]
        if abs(rotated - round(rotated)) > 1e-6 or round(rotated) % 2 or round(rotated) == 0:
            yield (f"RoPE rotates pairs: model.attention.head_dim={head_dim} times model.position.fraction="
                   f"{flat['model.position.fraction']:g} is {rotated:g}, not an even number")
    if position == "sinusoidal" and dim % 2:
        yield f"sinusoidal positions pair sines with cosines: model.dim={dim} must be even"
    if position == "learned" and flat["model.position.max_length"] < length:
        yield (f"model.position.max_length={flat['model.position.max_length']} is shorter than data.sequence_length={length}: "
               "learned positions cannot go past their table")
    if flat["data.source"] == "stdlib" and flat["data.document_separator"]:
        yield "data.document_separator has no effect with data.source=stdlib, where a file is a document; leave it empty"
    size = flat["model.vocab_size"]
    if vocab_size and size < vocab_size:
        yield f"model.vocab_size={size} is smaller than the tokenizer's {vocab_size} ids"
    kernel = flat["model.attention.kernel"]
    if kernel != AUTO:
        can = ATTENTION_KERNELS[kernel]
        wants = {
            "score": (position == "alibi", "model.position.kind=alibi"),
            "documents": (flat["data.isolate_documents"], "data.isolate_documents=true"),
            "dropout": (flat["model.attention.dropout"] > 0, f"model.attention.dropout={flat['model.attention.dropout']:g}"),
        }
        for feature, (wanted, name) in wants.items():
            if wanted and not can[feature]:
                yield f"model.attention.kernel={kernel} cannot do {name}; use einsum"
        if flat["model.dtype"] not in can["dtypes"]:
            yield f"model.attention.kernel={kernel} needs model.dtype={' or '.join(can['dtypes'])}, got {flat['model.dtype']}"
        if head_dim != AUTO and head_dim not in can["head_dims"]:
            widths = can["head_dims"]
            yield (f"model.attention.kernel={kernel} needs model.attention.head_dim to be a multiple of {widths.step} up to {widths[-1]}, "
                   f"got {head_dim}")
    accumulation = flat["training.accumulation_steps"]
    if batch % accumulation:
        yield f"data.batch_size={batch} does not divide by training.accumulation_steps={accumulation}"
    data, fsdp, tensor = flat["mesh.data"], flat["mesh.fsdp"], flat["mesh.tensor"]
    if data == 0:
        yield "mesh.data=0 must be -1 (all devices that are left) or at least 1"
    rows = fsdp * max(data, 1)
    if batch % accumulation == 0 and (batch // accumulation) % rows:
        yield (f"data.batch_size={batch} in training.accumulation_steps={accumulation} parts does not divide by the {rows} devices "
               f"of mesh.data x mesh.fsdp")
    for path in ("model.attention.num_heads", "model.attention.num_kv_heads"):
        if flat[path] % tensor:
            yield f"{path}={flat[path]} does not divide by mesh.tensor={tensor}"
            break
    if flat["schedule.warmup_steps"] > flat["training.steps"]:
        yield (f"schedule.warmup_steps={flat['schedule.warmup_steps']} is longer than training.steps={flat['training.steps']}")


def resolve(config: Mapping[str, Any], vocab_size: int | None = None) -> ResolvedConfig:
    """Checks a config as a whole and derives what is `auto`.

    Args:
        config: nested config; missing fields take their defaults.
        vocab_size: the tokenizer's size, where it is only known from the data (`characters`); without it
            `model.vocab_size` stays `auto` for that tokenizer.

    Returns:
        A frozen config with every field, in the order of the field table. `resolve` of a resolved config is itself.

    Raises:
        ConfigError: with one line for every problem there is.
    """
    given = flatten(config)
    problems = [f"unknown field {path}{did_you_mean(path, BY_PATH)}" for path in given if path not in BY_PATH]
    flat: dict[str, Any] = {}
    for field in FIELDS:
        flat[field.path], problem = _checked(field, given.get(field.path, field.default))
        if problem:
            problems.append(problem)
    if problems:
        raise ConfigError(problems)
    problems += _inert(flat)
    vocab_size = vocab_size or {"bytes": 257, "bpe": flat["data.tokenizer.vocab_size"]}.get(flat["data.tokenizer.kind"])
    _derive(flat, vocab_size)
    problems += _impossible(flat, vocab_size)
    if problems:
        raise ConfigError(problems)
    return ml_collections.FrozenConfigDict(nest(flat))


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Returns {path: (value in one, value in other)} for the fields that differ."""
    a, b = flatten(one), flatten(other)
    return {path: (a.get(path), b.get(path)) for path in {**a, **b} if a.get(path) != b.get(path)}


def result_relevant(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the flat config without the fields that cannot change a run's result."""
    return {path: value for path, value in flatten(config).items() if path not in NOT_RESULT_RELEVANT}


def identity(resolved: Mapping[str, Any]) -> str:
    """Returns the identity of a run: 16 hex digits of the sha256 of its result-relevant config."""
    canonical = json.dumps(result_relevant(resolved), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
