"""The heads of attention, and the keys and values that they share."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from zoo.config import ResolvedConfig, layer_kind, side
from zoo.config.kinds import ATTENTION_KINDS
from zoo.draw.diagrams.canvas import QUIET, Canvas
from zoo.errors import ConfigError
from zoo.lab.formatting import bytes_text, count
from zoo.models import cost

LEFT, ROW = 0.75, 0.5
"""Left edge of the heads, and distance between the rows of queries and keys, in inches."""
PITCH, WIDTH = 0.27, 7.2
"""Distance of two heads, where all fit into the width."""


class Sharing(NamedTuple):
    """The heads of some attention layers.

    Attributes:
        title: which layers.
        heads: H.
        queries: Q, distinct queries.
        groups: G, keys; also of values, where heads share both.
        head_dim: K.
        cached_bytes: size of a token's keys and values in the caches of all these layers, in the
            type of activations; 0 if they keep none.
        scheme: name of the scheme (`TokenMixer.sharing`).
        source: see `TokenMixer.key_value_source`.
        values: number of values, of which each head of a recurrence has its own.
        layer: what such a layer is called.
    """

    title: str
    heads: int
    queries: int
    groups: int
    head_dim: int
    cached_bytes: int
    scheme: str
    source: str = ""
    values: int = 0
    layer: str = "self-attention"

    def readers(self, count: int) -> list[list[int]]:
        """Returns the heads that each of `count` queries, or keys and values, belongs to."""
        each = self.heads // count
        return [list(range(start, start + each)) for start in range(0, self.heads, each)]


def sharings(config: ResolvedConfig) -> list[Sharing]:
    """Returns the heads of each kind of attention layers of a config.

    Kinds of layers that share in the same way are one entry.

    Raises:
        ConfigError: the model has no attention heads.
    """
    model = config.model
    if model.architecture == "elmo":
        raise ConfigError("model.architecture=elmo has no attention heads")
    found = []
    for name in ("encoder", "decoder") if model.architecture == "encoder_decoder" else ("",):
        own = side(model, name) if name else model
        merged: dict[Sharing, list[Sharing]] = {}
        every = list(_kinds(own))
        # Other mixers of a hybrid have none.
        for kind, layer, layers in [each for each in every if _has_heads(each[1])] or every:
            sharing = _sharing(layer, kind, layers)
            # What tells kinds apart is how they share, not how many layers keep a cache.
            merged.setdefault(sharing._replace(title="", cached_bytes=0), []).append(sharing)
        for same in merged.values():
            kinds = " and ".join(sharing.title for sharing in same)
            title = " ".join(filter(None, (name, kinds, same[0].layer)))
            found.append(same[0]._replace(title=title, cached_bytes=sum(each.cached_bytes for each in same)))
        if name == "decoder":
            found.append(_sharing(own, "cross-attention", own.num_layers, cross=True))
    return found


def _kinds(model: ResolvedConfig) -> Iterator[tuple[str, ResolvedConfig, int]]:
    """Yields the name, the config and the number of each kind of layers."""
    pattern = tuple(model.layers.pattern) or ("",)
    layers = [pattern[layer % len(pattern)] for layer in range(model.num_layers)]
    for kind in dict.fromkeys(layers):
        yield kind, layer_kind(model, kind) if kind else model, layers.count(kind)


def _sharing(layer: ResolvedConfig, title: str, layers: int, cross: bool = False) -> Sharing:
    attention = layer.attention
    mixer = ATTENTION_KINDS.code_of(attention.kind)
    if (counts := mixer.head_counts(layer, cross)) is None:
        raise ConfigError(f"model.attention.kind={attention.kind} has no heads")
    size = {"bfloat16": 2, "float32": 4}[layer.dtype] if layer.architecture == "decoder" else 0
    cached = cost.cross_cached_numbers(layer) if cross else mixer.cached_numbers(layer) * layers
    return Sharing(
        title,
        attention.num_heads,
        counts.queries,
        counts.keys,
        attention.head_dim,
        cached * size,
        mixer.sharing(attention.num_heads, counts.keys),
        mixer.key_value_source(layer),
        counts.values,
        "cross-attention" if cross else mixer.layer_name,
    )


def _has_heads(layer: ResolvedConfig) -> bool:
    return ATTENTION_KINDS.code_of(layer.attention.kind).head_counts(layer) is not None


def page(configs: Sequence[ResolvedConfig], names: Sequence[str]) -> Figure:
    """Draws the queries of heads above the keys and values that they read, for each kind of layers."""
    canvas = Canvas()
    y, right = 0.0, 4.2
    for config, name in zip(configs, names, strict=True):
        canvas.text(0.1, y - 0.14, name, 11, weight="bold", ha="left")
        y -= 0.42
        for sharing in sharings(config):
            canvas.text(0.1, y, f"{sharing.title}, {sharing.scheme}", 8.5, weight="bold", ha="left")
            canvas.text(0.1, y - 0.17, _sizes(sharing), 7.5, color=QUIET, ha="left")
            right = max(right, _draw(canvas, sharing, y - 0.34))
            y -= 1.75
        y -= 0.05
    return canvas.finish(0.0, y + 0.18, right + 0.15, 0.1)


def _draw(canvas: Canvas, sharing: Sharing, top: float) -> float:
    """Draws the heads of one entry below `top`; returns its right edge."""
    pitch = min(PITCH, WIDTH / sharing.heads)
    width, height = 0.74 * pitch, 0.2
    centres = [LEFT + pitch * head + width / 2 for head in range(sharing.heads)]
    rows = {"queries": top - height, "keys": top - 2 * height - ROW, "values": top - 3 * height - ROW - 0.06}
    for name, bottom in rows.items():
        canvas.text(LEFT - 0.08, bottom + height / 2, name, 7.5, ha="right")
    for heads in sharing.readers(sharing.queries):
        first, last = centres[heads[0]], centres[heads[-1]]
        canvas.box(first - width / 2, rows["queries"], (last - first + width, height), "attention")
    for heads in sharing.readers(sharing.groups):
        centre = (centres[heads[0]] + centres[heads[-1]]) / 2
        for head in heads:
            canvas.line((centre, rows["keys"] + height), (centres[head], rows["queries"]))
        canvas.box(centre - width / 2, rows["keys"], (width, height), "ffn")
    for heads in sharing.readers(sharing.values):
        centre = (centres[heads[0]] + centres[heads[-1]]) / 2
        canvas.box(centre - width / 2, rows["values"], (width, height), "softmax")
    return centres[-1] + width / 2


def _sizes(sharing: Sharing) -> str:
    heads = f"{sharing.heads} head{'s' * (sharing.heads > 1)} of {sharing.head_dim}"
    if sharing.queries < sharing.heads:
        heads += f", {sharing.queries} distinct quer{'ies' if sharing.queries > 1 else 'y'}"
    groups = f"{sharing.groups} keys and values" if sharing.groups > 1 else "1 key and value"
    if sharing.values != sharing.groups:
        groups = f"{count(sharing.groups, 'key')}, {count(sharing.values, 'value')}"
    if sharing.source:
        groups = f"keys and values from {sharing.source}"
    cached = f"; cache: {bytes_text(sharing.cached_bytes)} per token" if sharing.cached_bytes else ""
    return f"{heads}, {groups}{cached}"
