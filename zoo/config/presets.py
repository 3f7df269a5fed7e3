"""Small versions of any config: the same choices at a size that a CPU trains in seconds."""

import math
from collections.abc import Mapping
from typing import Any

import ml_collections

from zoo.config.fields import AUTO, BY_PATH, GATED, TASKS
from zoo.config.kinds import ATTENTION_KINDS, FEED_FORWARD_KINDS, unit_kind
from zoo.config.kinds.expert_kinds import EXPERTS
from zoo.config.kinds.position_kinds import FACTORS
from zoo.config.loading import override, parse_argument
from zoo.config.resolve import from_flat
from zoo.config.scopes import SIDES, is_group, scoped, scopes_in
from zoo.nested import flatten

PRESETS = {
    "tiny": {"dim": 64, "layers": 2, "heads": 4, "length": 64, "batch": 16, "steps": 200, "warmup": 20, "every": AUTO},
    "smoke": {"dim": 32, "layers": 2, "heads": 4, "length": 16, "batch": 4, "steps": 4, "warmup": 1, "every": 2},
}
# Of kinds that need another rate than AdamW.
RATES = {"adafactor": 0.03, "adagrad": 0.2, "lamb": 0.03}
SPECTRAL_RATE = 0.02  # of Muon's kinds in Jordan's scale
STRETCHED = ("dynamic", "yarn", "llama3", "longrope")
# Fields of a published data set, which small sizes do not read.
DATA_SET_FIELDS = (
    "data.document_separator",
    "data.column",
    "data.hub.revision",
    "data.hub.subset",
    "data.hub.split",
    "data.hub.folder",
    "data.source_column",
    "data.target_column",
    "data.header",
    "data.held_out",
    "data.validation_fraction",
    "training.translate_every",
)


def _rate(flat: Mapping[str, Any]) -> float:
    kind = flat["optimizer.kind"]
    spectral = kind in ("muon", "normuon") and flat["optimizer.muon_scale"] == "spectral"
    return SPECTRAL_RATE if spectral else RATES.get(kind, 3e-3)


def shrink(config: ml_collections.ConfigDict, preset: str) -> ml_collections.ConfigDict:
    """Returns `config` at the size of `preset` ("tiny" or "smoke").

    Choices stay: kinds, placement, biases, whether heads share keys, whether there is a window,
    which kinds of layers there are, which side is deeper. Sizes change: width, depth, heads, hidden
    width in proportion, windows, sequence, batch and budget. The text is `stdlib` as bytes.
    """
    size, flat = PRESETS[preset], flatten(config)
    scopes = scopes_in(flat)
    whole = {path: value for path, value in flat.items() if path in BY_PATH}
    pattern = tuple(dict.fromkeys(whole["model.layers.pattern"]))
    derived_std = (
        whole["model.init.kernel"] != "normal" and whole["model.init.embedding_std"] == whole["model.dim"] ** -0.5
    )
    loop = _loop(whole)
    size = size | {"layers": loop.get("model.num_layers", size["layers"])}
    changes = _layers(whole, whole, scopes, "model", size) | {
        "model.dim": size["dim"],
        "model.embedding.dim": _embedding_width(whole, size),
        "model.num_layers": max(size["layers"], len(pattern)),
        "model.layers.pattern": pattern,
        "model.generator.num_layers": _generator_layers(whole, max(size["layers"], len(pattern))),
        "model.layers.distinct": int(0 < whole["model.layers.distinct"] < whole["model.num_layers"]),
        **loop,
        "model.vocab_size": AUTO,
        "model.vocab_multiple": 1,
        "model.dtype": "float32",
        "model.scan_layers": False,
        "model.remat": "none",
        "model.init.embedding_std": AUTO if derived_std else whole["model.init.embedding_std"],
        "objective.prefix_length": AUTO,
        "objective.chunk_tokens": AUTO,
        "objective.sampled_softmax": min(whole["objective.sampled_softmax"], size["dim"]),
        "data.source": "stdlib",
        **{path: BY_PATH[path].default for path in DATA_SET_FIELDS},
        "data.tokenizer.kind": "bytes",
        "data.tokenizer.vocab_size": 8192,
        "data.sequence_length": size["length"],
        "data.batch_size": size["batch"],
        "training.steps": size["steps"],
        "training.accumulation_steps": AUTO,
        "training.microbatch_size": 0,
        "training.eval_every": size["every"],
        "training.checkpoint_every": size["steps"] // 2,
        "training.eval_batches": AUTO if whole["objective.kind"] in TASKS else 10,
        "training.log_every": max(1, size["steps"] // 20),
        "optimizer.learning_rate": _rate(whole),
        "schedule.warmup_steps": min(whole["schedule.warmup_steps"], size["warmup"]),
        "schedule.hold": whole["schedule.hold"] and size["warmup"] > 1,
        **{path: field.default for path, field in BY_PATH.items() if path.startswith("mesh.")},
    }
    if whole["optimizer.kind"] == "adafactor":
        changes["optimizer.adafactor_min_factored"] = min(whole["optimizer.adafactor_min_factored"], size["dim"])
    if whole["optimizer.kind"] == "ademamix":
        changes["optimizer.ademamix_warmup"] = AUTO
    if whole["model.architecture"] == "elmo":
        changes |= {
            "model.elmo.characters": 12,
            "model.elmo.character_dim": 8,
            "model.elmo.filters": (1, 8, 2, 8, 3, 16),
            "model.elmo.cell_dim": 2 * size["dim"],
        }
    for scope, overrides in scopes.items():
        small = overrides if is_group(scope) else _scope(whole, overrides, scopes, scope, size)
        changes |= {scoped(scope, path): value for path, value in small.items()}
    return override(from_flat(whole), changes)


def _loop(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a loop over layers at a small size, nothing where there is none: two turns
    over one layer, with one before and one after it where there are some, and in evaluation as many
    turns, more or one.
    """
    if whole["model.layers.sharing"] != "cycle":
        return {}
    prelude, coda = (min(whole[f"model.layers.{name}"], 1) for name in ("prelude", "coda"))
    once = whole["model.layers.prelude"] + whole["model.layers.coda"]
    loops = (whole["model.num_layers"] - once) // max(whole["model.layers.distinct"] - once, 1)
    evaluated = whole["model.layers.eval_loops"]
    return {
        "model.num_layers": prelude + 2 + coda,
        "model.layers.distinct": prelude + 1 + coda,
        "model.layers.prelude": prelude,
        "model.layers.coda": coda,
        "model.layers.eval_loops": evaluated and 2 + (evaluated > loops) - (evaluated < loops),
    }


def _generator_layers(whole: Mapping[str, Any], layers: int) -> int | str:
    """Returns the depth of a generator for a model of `layers` layers: all, none, or in proportion."""
    given = whole["model.generator.num_layers"]
    return max(1, round(given / whole["model.num_layers"] * layers)) if given not in (AUTO, 0) else given


def _embedding_width(whole: dict[str, Any], size: dict[str, int]) -> int:
    """Returns the width of the embeddings in proportion to that of the model, even for sinusoids."""
    width = whole["model.embedding.dim"]
    return width and max(4, 2 * round(width / whole["model.dim"] * size["dim"] / 2))


def _scope(
    whole: dict[str, Any],
    overrides: dict[str, Any],
    scopes: dict[str, dict[str, Any]],
    scope: str,
    size: dict[str, int],
) -> dict[str, Any]:
    """Returns the overrides of a scope at the new size.

    A value in a scope is never `auto`, so derived values are computed here.
    """
    seen = whole | overrides
    small = _layers(seen, whole, scopes, scope, size)
    if "model.num_layers" in overrides:
        small["model.num_layers"] = max(
            1, round(overrides["model.num_layers"] / whole["model.num_layers"] * size["layers"])
        )
    width = small["model.attention.head_dim"]
    derived = {
        "model.attention.scale": (width + small.get("model.attention.rotary_dim", 0)) ** -0.5,
        "model.attention.features": max(1, int(width * math.log(width))),
        "model.position.max_length": size["length"],
        "model.ffn.hidden_dim": 4 * size["dim"],
    }
    kept = {path: small.get(path, value) for path, value in overrides.items()}
    kept = {path: derived.get(path, value) if value == AUTO else value for path, value in kept.items()}
    # The implementation was chosen for another device.
    kept.pop("model.attention.implementation", None)
    # A kind of layers needs at least one override.
    return kept or {"model.residual": seen["model.residual"]}


def _layers(
    seen: dict[str, Any], whole: dict[str, Any], scopes: dict[str, dict[str, Any]], scope: str, size: dict[str, int]
) -> dict[str, Any]:
    """Returns the fields of layers at the new size, `auto` unless a choice must be kept.

    Args:
        seen: the flat config as these layers see it.
        whole: the flat config of the whole model; head counts are scaled in proportion to it.
        scopes: all overrides, which determine the order of windows by width.
        scope: "model", a side, or a kind.
    """
    length, heads = size["length"], seen["model.attention.num_heads"]
    usual = 1 if whole["model.attention.num_heads"] == 1 else size["heads"]
    new_heads = (
        1
        if heads == 1
        else min(8, max(2, 2 ** round(math.log2(size["heads"] * heads / whole["model.attention.num_heads"]))))
    )
    shared = {}
    for path in ("model.attention.num_kv_heads", "model.attention.num_query_heads", "model.attention.cross_kv_heads"):
        number = seen[path]
        shared[path] = (
            number if number == AUTO else new_heads if number == heads else 1 if number == 1 else new_heads // 2
        )
    dilations = seen["model.attention.dilations"]
    if dilations and new_heads % len(dilations):
        dilations = (1, max(dilations))[-new_heads:]
    head_dim = AUTO
    if scope != "model":
        head_dim = max(4, round(_head_dim(seen) / _head_dim(whole) * (size["dim"] // usual) / 4) * 4)
    width = size["dim"] // new_heads if head_dim == AUTO else head_dim
    hidden, multiple = seen["model.ffn.hidden_dim"], seen["model.ffn.multiple_of"]
    if hidden == 4 * seen["model.dim"] and (multiple, seen["model.ffn.dim_multiplier"]) != (1, 1):
        # It was derived; what adjusts it applies at the new size too.
        hidden = AUTO
    if hidden != AUTO:
        unit = 24 if unit_kind(seen["model.ffn.kind"], seen["model.ffn.experts.kind"]) in GATED else 8
        hidden = max(unit, round(hidden / seen["model.dim"] * size["dim"] / unit) * unit)
    changes = {
        "model.attention.num_heads": new_heads,
        **shared,
        "model.attention.dilations": dilations,
        "model.attention.head_dim": head_dim,
        "model.attention.scale": 1.0 if seen["model.attention.scale"] == 1.0 else AUTO,
        "model.attention.window": _window(seen["model.attention.window"], whole, scopes, scope, length),
        "model.attention.global_tokens": min(seen["model.attention.global_tokens"], length // 16),
        "model.attention.implementation": AUTO,
        "model.attention.features": AUTO,
        "model.ffn.hidden_dim": hidden,
        # A width that is given is a multiple of `unit`.
        "model.ffn.multiple_of": max(1, round(multiple / seen["model.dim"] * size["dim"])) if hidden == AUTO else 1,
    }
    changes |= _experts(seen, size, hidden) | _latents(seen, width)
    changes |= _state(seen, size["dim"], new_heads, width, scope != "model")
    changes |= _states_beside_heads(seen, new_heads, width)
    if seen["model.attention.kind"] == "performer":
        changes["model.attention.redraw_every"] = min(seen["model.attention.redraw_every"], size["steps"] // 4)
    return changes | _position(seen, width, length)


def _experts(seen: dict[str, Any], size: dict[str, int], hidden: int | str) -> dict[str, Any]:
    """Returns the fields of experts at the new size: 8, or 4 where there are few, and at least two of
    them for each token if there were. A shared expert that is as wide as some of the others stays so.
    """
    if seen["model.ffn.kind"] not in FEED_FORWARD_KINDS.having("experts"):
        return {}
    given = {name: seen[f"{EXPERTS}.{name}"] for name in ("number", "per_token", "groups", "chosen_groups")}
    number, groups = min(given["number"], 8 if given["number"] > 8 else 4), min(given["groups"], 4)
    shared, each = seen[f"{EXPERTS}.shared_dim"], seen["model.ffn.hidden_dim"]
    whole = AUTO not in (each, hidden) and shared % each == 0
    changes = {
        "number": number,
        "per_token": max(min(given["per_token"], 2), round(given["per_token"] / given["number"] * number)),
        "groups": groups,
        "chosen_groups": max(1, round(given["chosen_groups"] / given["groups"] * groups)),
        "shared_dim": shared // each * hidden if whole else -(-shared * size["dim"] // seen["model.dim"]),
    }
    return {f"{EXPERTS}.{name}": value for name, value in changes.items()}


def _latents(seen: dict[str, Any], width: int) -> dict[str, Any]:
    """Returns the widths of latent attention that are given, for heads of `width`."""
    names = ("latent_dim", "rotary_dim", "query_latent_dim")
    given = {f"model.attention.{name}": seen[f"model.attention.{name}"] for name in names}
    # RoPE rotates pairs.
    return {
        path: 2 * max(1, round(value / _head_dim(seen) * width / 2))
        for path, value in given.items()
        if value not in (AUTO, 0)
    }


def _state(seen: dict[str, Any], dim: int, heads: int, width: int, in_scope: bool) -> dict[str, Any]:
    """Returns the fields of a kind with a state at the new size: derived again where they were, else
    in proportion.

    Args:
        seen: the flat config as these layers see it.
        dim, heads, width: D, the number of states and the elements of a key at the new size.
        in_scope: whether a value must be a number.
    """
    if seen["model.attention.kind"] not in ATTENTION_KINDS.having("state"):
        return {}
    at = "model.attention."
    size = {"model.dim": dim, f"{at}num_heads": heads, f"{at}head_dim": width}
    derived, new = (ATTENTION_KINDS.derive(seen | more | {f"{at}value_dim": AUTO}) for more in ({}, size))
    values, groups = seen[f"{at}value_dim"], seen[f"{at}key_heads"]
    changes = {}
    if values != AUTO:
        changes[f"{at}value_dim"] = max(4, round(values / _head_dim(seen) * width / 4) * 4)
    if groups != AUTO:
        changes[f"{at}key_heads"] = max(1, heads * groups // seen[f"{at}num_heads"])
    if (rank := seen[f"{at}decay_rank"]) != AUTO:
        changes[f"{at}decay_rank"] = rank
    return {
        path: value if seen[path] != derived.get(path) else new[path] if in_scope else AUTO
        for path, value in changes.items()
    }


def _states_beside_heads(seen: dict[str, Any], heads: int, width: int) -> dict[str, Any]:
    """Returns the sizes of states beside heads of softmax attention, in proportion to these heads."""
    if seen["model.attention.kind"] != "parallel_heads":
        return {}
    old, at = seen["model.attention.num_heads"], "model.attention."
    states = {path: seen[path] for path in (f"{at}state_heads", f"{at}state_dim", f"{at}value_dim", f"{at}key_heads")}
    given = {path: value for path, value in states.items() if value != AUTO}
    scale = width / _head_dim(seen)
    count = max(1, given.get(f"{at}state_heads", old) * heads // old)
    # Values of normed parts are as wide as those of attention.
    normed = seen[f"{at}mixing"] == "normed"
    new = {
        f"{at}state_heads": count,
        f"{at}state_dim": max(4, round(given.get(f"{at}state_dim", 0) * scale / 4) * 4),
        f"{at}value_dim": heads * width // count if normed else max(4, round(given.get(f"{at}value_dim", 0) * scale)),
        f"{at}key_heads": max(1, count * given.get(f"{at}key_heads", 0) // given.get(f"{at}state_heads", old)),
    }
    return {path: new[path] for path in given}


def _head_dim(seen: dict[str, Any]) -> float:
    given = seen["model.attention.head_dim"]
    return seen["model.dim"] / seen["model.attention.num_heads"] if given == AUTO else given


def _window(window: int, whole: dict[str, Any], scopes: dict[str, dict[str, Any]], scope: str, length: int) -> int:
    """Returns a quarter of the sequence for the widest window of a config, half of that for the
    next; odd where it reaches to both sides.
    """
    if not window:
        return 0
    windows = {
        whole["model.attention.window"],
        *(overrides.get("model.attention.window", 0) for overrides in scopes.values()),
    }
    wider = sum(other > window for other in windows)
    small = max(1, (length // 4) >> wider)
    both_sides = whole["model.architecture"] == "encoder" or scope == SIDES[0]
    return small | 1 if both_sides else small


def _position(seen: dict[str, Any], width: int, length: int) -> dict[str, Any]:
    """Returns the fields of positions, for heads of `width` and rows of `length`."""
    kind, changes = seen["model.position.kind"], {}
    # How long the sides of an encoder-decoder are depends on the objective; `auto` is the longer one.
    given = kind == "learned" and seen["model.position.max_length"] != AUTO
    one_side = seen["model.architecture"] != "encoder_decoder"
    changes["model.position.max_length"] = length if given and one_side else AUTO
    if kind == "rope":
        changes["model.position.fraction"] = max(2, 2 * round(seen["model.position.fraction"] * width / 2)) / width
        if (scaling := seen["model.position.scaling.kind"]) in STRETCHED:
            share = seen["model.position.scaling.original_length"] / seen["data.sequence_length"]
            least = 2 if scaling == "longrope" else 1
            changes["model.position.scaling.original_length"] = max(least, round(share * length))
        if scaling == "longrope":
            pairs = round(changes["model.position.fraction"] * width) // 2
            for path in FACTORS:
                factors = seen[path]
                changes[path] = tuple(factors[pair * len(factors) // pairs] for pair in range(pairs) if factors)
    if kind == "shaw":
        changes["model.position.clip"] = min(seen["model.position.clip"], length // 4)
    return changes


UNROLLED_LAYERS = 24
"""Unrolled, a step is faster on every device, but takes longer to compile with every layer."""


def sized(
    argument: str, base: ml_collections.ConfigDict, sizes: Mapping[str, Mapping[str, Any]]
) -> ml_collections.ConfigDict:
    """Returns `base` at the size that the argument of a config file names, with its overrides.

    Args:
        argument: "size,field=value,...".
        base: the fields that all sizes share.
        sizes: flat overrides of every published size; `tiny` and `smoke` shrink the first of them.
            Stacks of more than `UNROLLED_LAYERS` are scanned.
    """
    size, options = parse_argument(argument, sizes)
    config = override(base, sizes[size if size in sizes else next(iter(sizes))])
    if size not in sizes:
        config = shrink(config, size)
    elif deepest(config) > UNROLLED_LAYERS:
        config = override(config, {"model.scan_layers": True})
    return override(config, options)


def deepest(config: Mapping[str, Any]) -> int:
    """Returns the number of layers of a model's deepest stack."""
    flat = flatten(config)
    depths = (value for path, value in flat.items() if path.split(".")[-1] == "num_layers")
    return max(depth for depth in depths if depth != AUTO)
