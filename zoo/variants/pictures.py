"""The pictures of variants, drawn by what `zoo draw` uses, at the size of GPT-2 small."""

from collections.abc import Callable

from matplotlib.figure import Figure

from zoo import config as configs
from zoo.draw import position_tables
from zoo.draw.diagrams import architecture_diagram, attention_masks, head_sharing
from zoo.draw.style import drawing
from zoo.variants.variant import BASELINES, SIZE, Variant
from zoo.variants.variant_cost import is_architecture, resolved

Resolved = configs.ResolvedConfig


def _beside_the_baseline(after: Resolved, before: Resolved, name: str) -> Figure:
    return architecture_diagram.page([before, after], ["the baseline", name])


# What is drawn of the variant and its baseline.
PICTURES: dict[str, Callable[[Resolved, Resolved, str], Figure]] = {
    "architecture": _beside_the_baseline,
    "heads": lambda after, before, name: head_sharing.page([after], [name]),
    "mask": lambda after, before, name: attention_masks.page(after, name),
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
