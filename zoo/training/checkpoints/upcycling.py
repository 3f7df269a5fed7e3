"""Mixtures of experts that begin with layers of a dense run (Komatsuzaki et al. 2022, section 3)."""

from collections.abc import Mapping
from typing import Any

from zoo import config as configs
from zoo.config import ResolvedConfig
from zoo.config.kinds import FEED_FORWARD_KINDS
from zoo.config.scopes import layer_scopes, scopes_in
from zoo.errors import ConfigError
from zoo.nested import flatten

DENSE, EXPERTS = "/ffn/", "/ffn/experts/"
FRESH = ("/ffn/router/", "/ffn/shared/", "/ffn/shared_gate/", "/ffn/choice_bias/", "/ffn/sent/")
"""Parts of a mixture that a dense layer lacks. They have their initial values."""


def _feed_forwards(config: ResolvedConfig) -> list[Mapping[str, Any]]:
    """Returns the fields of the model as each of its kinds of layers or sides sees them."""
    flat = flatten(config)
    return list(layer_scopes(flat, scopes_in(flat)).values())


def _is_mixture(fields: Mapping[str, Any]) -> bool:
    return fields["model.ffn.kind"] in FEED_FORWARD_KINDS.having("experts")


def upcycles(config: ResolvedConfig) -> bool:
    """Returns whether layers with experts begin with those of a run that has dense layers."""
    if not config.training.start_from or not any(map(_is_mixture, _feed_forwards(config))):
        return False
    source = configs.resolve(configs.load(config.training.start_from))
    return not all(map(_is_mixture, _feed_forwards(source)))


def check_upcycling(config: ResolvedConfig) -> None:
    """Checks that experts are of a kind of which the run that they begin with has layers.

    Raises:
        ConfigError: naming the kinds.
    """
    if not upcycles(config):
        return
    source = configs.resolve(configs.load(config.training.start_from))
    there = {
        fields["model.ffn.experts.kind" if _is_mixture(fields) else "model.ffn.kind"]
        for fields in _feed_forwards(source)
    }
    for fields in filter(_is_mixture, _feed_forwards(config)):
        if (kind := fields["model.ffn.experts.kind"]) not in there:
            raise ConfigError(
                f"model.ffn.experts.kind={kind}: experts begin as copies of the feed-forward layers of "
                f"training.start_from={config.training.start_from}, which are {', '.join(sorted(there))}; set that kind"
            )


def dense_name(name: str) -> str | None:
    """Returns the path, in a dense layer, of what each expert begins with; None of what no dense layer
    has.
    """
    return name.replace(EXPERTS, DENSE) if EXPERTS in name else None


def before_feed_forward(name: str) -> str:
    """Returns the path of the layer whose feed-forward layer a variable is in."""
    return f"/{name}".partition(DENSE)[0]


def is_fresh(name: str) -> bool:
    """Returns whether a variable of a mixture is in no dense layer, by its path."""
    return any(part in f"{name}/" for part in FRESH)
