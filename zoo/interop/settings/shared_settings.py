"""Settings that several families share: RoPE with scaling, and layers of several kinds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from zoo.errors import ConfigError
from zoo.interop.settings.importer import SettingsReader


def rename_settings(hf: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Replaces aliases by the class's own names, e.g. {"num_attention_heads": "n_head"}.

    If both are given, the alias wins.
    """
    return {name: value for name, value in hf.items() if name not in names} | {
        names[name]: hf[name] for name in names if name in hf
    }


def unpack_rope_parameters(
    hf: Mapping[str, Any], theta: str = "rope_theta", fraction: str | None = None, stretched: bool = False
) -> dict[str, Any]:
    """Replaces `rope_parameters`, which transformers 5 writes, by the settings of transformers 4.

    Args:
        hf: the content of a `config.json`.
        theta, fraction: names of the class's settings for the base of the wavelengths, and for the
            share of a head that is rotated; None if it is the whole head.
        stretched: whether the class's own `rope_scaling` stretches positions. It has no say where a
            file has `rope_parameters`.

    Raises:
        ConfigError: a file that has the settings of both, with different values.
    """
    parameters = hf.get("rope_parameters")
    settings = {name: value for name, value in hf.items() if name != "rope_parameters"}
    if parameters is None:
        return settings
    if not isinstance(parameters, Mapping):
        raise ConfigError(f"rope_parameters={parameters!r}: expected a dict")
    scaling = dict(parameters)
    moved = {theta: scaling.pop("rope_theta", None)}
    if fraction is not None or scaling.get("partial_rotary_factor") == 1:
        moved[fraction or ""] = scaling.pop("partial_rotary_factor", None)
    moved = {name: value for name, value in moved.items() if name and value is not None}
    old = settings.get("rope_scaling") or {"rope_type": "default"}
    old = {"rope_type" if name == "type" else name: value for name, value in old.items()}
    problems = [
        f"rope_parameters={parameters!r}: differs from {name}={settings[name]!r}"
        for name, value in moved.items()
        if settings.get(name) not in (None, value)
    ]
    if "rope_scaling" in settings and any(old[name] != scaling[name] for name in old.keys() & scaling.keys()):
        problems.append(f"rope_parameters={parameters!r}: differs from rope_scaling={settings['rope_scaling']!r}")
    if problems:
        raise ConfigError(problems)
    if scaling.keys() - {"rope_type"} or scaling.get("rope_type", "default") != "default":
        moved["rope_scaling"] = scaling
    elif stretched:
        moved["rope_scaling"] = None
    return settings | moved


def unpack_both_ropes(hf: Mapping[str, Any], local_theta: str, theta: str = "rope_theta") -> dict[str, Any]:
    """Replaces `rope_parameters` with one dict for each type of layer, of which only that of
    `full_attention` may stretch its positions; see `unpack_rope_parameters`.

    Args:
        hf: the content of a `config.json`.
        local_theta: name of the setting for the base of the wavelengths in layers with a window.
        theta: name of that of the others.

    Raises:
        ConfigError: a file that has the settings of both versions, with different values, or that
            stretches the positions of layers with a window.
    """
    both = hf.get("rope_parameters")
    if not isinstance(both, Mapping) or "full_attention" not in both:
        return unpack_rope_parameters(hf, theta)
    local = unpack_rope_parameters({"rope_parameters": both.get("sliding_attention")}, local_theta)
    if "rope_scaling" in local:
        raise ConfigError(f"rope_parameters.sliding_attention={both['sliding_attention']!r}: expected no scaling")
    theirs = unpack_rope_parameters(dict(hf) | {"rope_parameters": both["full_attention"]}, theta)
    (base,) = local.values() or (None,)
    if base is not None and theirs.get(local_theta) not in (None, base):
        raise ConfigError(
            f"rope_parameters.sliding_attention.rope_theta={base!r}: differs from {local_theta}={theirs[local_theta]!r}"
        )
    return theirs | local


def rotated_fraction(width: int, share: float) -> dict[str, float]:
    """Returns the field for RoPE on a share of each head's `width` dimensions, rounded down to whole
    ones as the classes do.
    """
    return {"model.position.fraction": int(width * share) / width}


def rope_fields(
    settings: SettingsReader, theta: float, scaling: Mapping[str, Any] | None, length: int
) -> dict[str, Any]:
    """Returns the fields of rotary positions.

    Args:
        settings: collects problems.
        theta: base of the wavelengths.
        scaling: the setting `rope_scaling`, a dict with a `rope_type` (`type` in old files), or
            None.
        length: the setting `max_position_embeddings`, which some types of scaling use.
    """
    fields = {"model.position.kind": "rope", "model.position.theta": theta}
    if not scaling:
        return fields
    if not isinstance(scaling, Mapping):
        settings.reject("rope_scaling", "expected a dict")
        return fields
    inner = SettingsReader(scaling, {}, prefix="rope_scaling.")
    kind = inner.get("type")
    kind = inner.get("rope_type", kind)
    inner.get("finetuned")  # A note of the authors, which no class reads.
    at = "model.position.scaling."
    if kind in ("linear", "dynamic", "yarn", "llama3"):
        fields |= {f"{at}kind": kind, f"{at}factor": inner.get("factor")}
    elif kind != "default":
        inner.reject("rope_type", "expected one of default, linear, dynamic, yarn, llama3")
    if kind == "dynamic":
        # Dynamic scaling starts from max_position_embeddings, whatever else the file says.
        inner.get("original_max_position_embeddings")
        fields[f"{at}original_length"] = length
    elif kind == "yarn":
        fields |= {
            f"{at}original_length": inner.get("original_max_position_embeddings") or length,
            f"{at}low": inner.get("beta_slow") or 1,
            f"{at}high": inner.get("beta_fast") or 32,
            f"{at}truncate": bool(inner.get("truncate", True)),
        }
        fields |= {f"{at}sharpening": factor for factor in _sharpening(inner)}
    elif kind == "llama3":
        fields |= {
            f"{at}original_length": inner.get("original_max_position_embeddings"),
            f"{at}low": inner.get("low_freq_factor"),
            f"{at}high": inner.get("high_freq_factor"),
        }
    settings.problems += [
        f"rope_scaling.{name} is missing"
        for name, field in (
            ("factor", "factor"),
            ("original_max_position_embeddings", "original_length"),
            ("low_freq_factor", "low"),
            ("high_freq_factor", "high"),
        )
        if fields.get(at + field, "") is None
    ]
    settings.include(inner)
    return fields


def yarn_sharpening(factor: float, weight: float = 1.0) -> float:
    """Returns 0.1 w ln(factor) + 1, or 1 where nothing is stretched (Peng et al. 2023, eq. 22, with a
    weight of 1).
    """
    return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0


def _sharpening(inner: SettingsReader) -> tuple[float, ...]:
    """Returns the factor of YaRN on rotated queries and keys, nothing if it is the usual one."""
    factor, given = inner.get("factor") or 1.0, inner.get("attention_factor")
    m, m_all = inner.get("mscale"), inner.get("mscale_all_dim")
    usual = yarn_sharpening(factor)
    if given is None:
        given = yarn_sharpening(factor, m) / yarn_sharpening(factor, m_all) if m and m_all else usual
    return () if math.isclose(given, usual, rel_tol=1e-6) else (given,)


def layer_kind_fields(layers: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Returns the fields of layers that differ.

    Args:
        layers: for each layer, the name of its kind and the fields of this kind, e.g.
            {"attention.window": 64}.

    Returns:
        the shortest pattern of these layers, and the kinds' fields; if all are equal, fields of the
            whole model.

    Raises:
        ConfigError: there are no layers.
    """
    if not layers:
        raise ConfigError("the config describes a model without layers; expected one or more")
    names = [name for name, _ in layers]
    changes = dict(layers)
    if len(changes) == 1:
        return {f"model.{path}": value for path, value in changes[names[0]].items()}
    period = next(n for n in range(1, len(names) + 1) if all(name == names[i % n] for i, name in enumerate(names)))
    return {"model.layers.pattern": tuple(names[:period])} | {
        f"model.layers.kinds.{name}.{path}": value for name, fields in changes.items() for path, value in fields.items()
    }


def by_layer_type(settings: SettingsReader, default: Sequence[str], table: Mapping[str, Any]) -> list[Any]:
    """Returns for each layer the value in `table` of its type in the setting `layer_types`.

    Unknown types and another number of layers are rejected.

    Args:
        settings: the config's settings.
        default: the types if the setting is None.
        table: by type, one of which is "full_attention".
    """
    types, depth = settings.get("layer_types") or default, settings["num_hidden_layers"]
    if unknown := sorted(set(types) - set(table)):
        settings.reject("layer_types", f"{', '.join(unknown)} is not one of {', '.join(table)}")
    if len(types) != depth:
        settings.reject("layer_types", f"expected one for each of the {depth} layers")
    return [table.get(name, table["full_attention"]) for name in types]


def window_layers(
    settings: SettingsReader, default: Sequence[str], window: int | None
) -> list[tuple[str, dict[str, Any]]]:
    """Returns the argument of `layer_kind_fields` for the setting `layer_types`.

    Args:
        settings: the config's settings.
        default: the types if the setting is None.
        window: number of keys in the window of "sliding_attention", including the query's own.
    """
    table = {
        "sliding_attention": ("local", {"attention.window": window or 0}),
        "full_attention": ("global", {"attention.window": 0}),
    }
    if "sliding_attention" in (settings.get("layer_types") or default) and not window:
        settings.reject("layer_types", "sliding_attention without a sliding_window")
    return [(name, dict(fields)) for name, fields in by_layer_type(settings, default, table)]
