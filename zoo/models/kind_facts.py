"""Facts about a plug-in's kind: equation, fields, parameters, cache and terms of the loss."""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zoo import config as configs
from zoo.config.fields_of_sizes import SHAPES, resolved_fields
from zoo.config.kinds import ATTENTION_KINDS, Kind
from zoo.config.plugins import FOLDER, Plugin, kinds_of, named
from zoo.errors import ConfigError
from zoo.files import write_json
from zoo.models import cost
from zoo.models.parameter_shapes import variables

# The models that a kind may change, the first that accepts it is taken.
BASES: tuple[dict[str, Any], ...] = (
    {},
    {"model.architecture": "encoder", "objective.kind": "masked"},
    {"model.architecture": "encoder_decoder", "objective.kind": "prefix"},
)


def facts_of(kind: Kind) -> dict[str, Any]:
    """Returns what a report and `zoo describe` tell about a kind of a plug-in, as plain JSON.

    Returns:
        {"kind": "model.ffn.kind=name", "meaning", "equation": docstring of its code, "fields": a line
        for each field of its own, "loss_terms": a line for each term, "parameters": lines about those
        that it adds or removes, "cache": numbers that a decoder keeps of each token}; the last two are
        missing for what is no part of a model.
    """
    facts = {
        "kind": f"{kind.path}={kind.name}",
        "meaning": kind.meaning,
        "equation": inspect.getdoc(kind.code) or "",
        "fields": [f"{field.path} ({field.default}): {field.meaning}" for field in kind.fields],
        "loss_terms": [f"{name}, with the weight {path}" for name, path in kind.loss_terms.items()],
    }
    return facts | (_costs(kind) if kind.path.startswith("model.") else {})


def _costs(kind: Kind) -> dict[str, Any]:
    """Returns the parameters and the cache of a model with the kind, beside those without."""
    for base in BASES:
        try:
            config = _resolved({**base, kind.path: kind.name})
        except ConfigError:
            continue
        before, after = variables(_resolved(base)), variables(config)
        found = [
            f"{title} {', '.join(f'{path} {shape}' for path, shape in one.items() if path not in other)}"
            for title, one, other in (("adds", after, before), ("removes", before, after))
            if one.keys() - other.keys()
        ]
        lines = {"parameters": found or ["the same as the default's"]}
        if config.model.architecture != "encoder":
            lines["cache"] = _cache(config)
        return lines
    return {}


def _resolved(changes: dict[str, Any]) -> configs.ResolvedConfig:
    return configs.resolve(configs.from_flat(resolved_fields(changes, SHAPES)))


def _cache(config: configs.ResolvedConfig) -> str:
    model = configs.side(config.model, "decoder") if config.model.architecture == "encoder_decoder" else config.model
    mixer = ATTENTION_KINDS.code_of(model.attention.kind)
    parts = [f"{mixer.cache_formula} numbers per token and layer"] if cost.cached_numbers(model, 1) else []
    if held := mixer.state_bytes(model):
        H, K = model.attention.num_heads, model.attention.head_dim
        parts.append(f"{held:,} bytes per text and layer, whatever its length (with H = {H}, K = {K})")
    return ", and ".join(parts) or "of one size, whatever the number of tokens"


def facts_file(folder: Path, name: str) -> Path:
    """Returns where the facts about a plug-in lie in the folder of a sweep."""
    return folder / FOLDER / f"{Path(name).stem}.facts.json"


def store_facts(folder: Path, entries: Sequence[str]) -> None:
    """Writes the facts about the kinds of loaded plug-ins beside their stored texts, so that a report
    can show them without executing the text.

    Args:
        folder: folder of a sweep.
        entries: references of loaded plug-ins.
    """
    for plugin in named(entries):
        if kinds := kinds_of(plugin):
            write_json(facts_file(folder, plugin.name), plugin_facts(plugin, kinds))


def plugin_facts(plugin: Plugin, kinds: Sequence[Kind]) -> dict[str, Any]:
    """Returns {"sha256": that of the text, "kinds": facts about each of its kinds}."""
    return {"sha256": plugin.sha256, "kinds": [facts_of(kind) for kind in kinds]}
