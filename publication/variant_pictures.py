"""The pictures of variants, drawn by what `zoo draw` uses, at the size of GPT-2 small."""

from collections.abc import Callable

from matplotlib.figure import Figure

from zoo import config as configs
from zoo.draw import position_tables, rope_pictures
from zoo.draw.diagrams import architecture_diagram, attention_masks, head_sharing
from zoo.draw.style import drawing
from zoo.variants.variant import BASELINES, SIZE, Variant
from zoo.variants.variant_cost import is_architecture, resolved

Resolved = configs.ResolvedConfig
# Width of the heads in a picture of pairs: few enough to be told apart.
PAIRED_DIM = 16


def _beside_the_baseline(after: Resolved, before: Resolved, name: str) -> Figure:
    return architecture_diagram.page([before, after], ["the baseline", name])


def _pairs_beside_rope(after: Resolved, before: Resolved, name: str) -> Figure:
    del before
    changes = {"model.position.kind": "rope", "model.attention.head_dim": PAIRED_DIM}
    layouts = {"half": "rope", after.model.position.layout: name}
    return rope_pictures.pairs_page(
        {title: resolved({**changes, "model.position.layout": layout}, SIZE).model for layout, title in layouts.items()}
    )


# Pictures of a variant and its baseline, by name.
PICTURES: dict[str, Callable[[Resolved, Resolved, str], Figure]] = {
    "architecture": _beside_the_baseline,
    "heads": lambda after, before, name: head_sharing.page([after], [name]),
    "mask": lambda after, before, name: attention_masks.page(after, name),
    "pairs": _pairs_beside_rope,
    "positions": lambda after, before, name: position_tables.page(after, name),
}


def draw(variant: Variant) -> Figure | None:
    """Returns the picture that a variant's entry names, or None."""
    if not variant.picture:
        return None
    base = {} if is_architecture(variant) else BASELINES[variant.baseline]
    before, after = (resolved({**base, **changes}, SIZE) for changes in ({}, variant.changes))
    with drawing():
        return PICTURES[variant.picture](after, before, variant.name)
