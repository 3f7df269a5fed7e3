"""The order of norm, sublayer and residual connection of a placement, from the code of its block."""

from types import SimpleNamespace
from typing import Any, NamedTuple

from zoo.config import ResolvedConfig
from zoo.config.kinds import PLACEMENT_KINDS

NORM, SUBLAYER = "norm", "sublayer"
# By trait of a placement: what stands in place of one residual stream.
_ADDED = {"streams": "streams", "depth": "earlier outputs"}


class Branch(NamedTuple):
    """Steps whose result is added to what they read.

    Attributes:
        steps: in the order of computation.
        residual: whether it is added; otherwise the result replaces what was read.
        label: what is written beside the residual connection: what it multiplies by, or what is added
            in place of one stream; "" for the stream itself.
    """

    steps: tuple[Any, ...]
    residual: bool = True
    label: str = ""


class _Stream(NamedTuple):
    """A residual stream that remembers the steps that made it, but not the numbers that they were
    multiplied by.
    """

    steps: tuple[Any, ...] = ()
    dtype: str = "float32"

    def __mul__(self, factor: Any) -> "_Stream":
        return self

    def after(self, step: Any) -> "_Stream":
        return _Stream((*self.steps, step))


# The steps of these placements cannot be traced, and are given explicitly.
_OWN_STEPS = {
    "interpolated": (Branch((SUBLAYER, NORM), label="a (f − x)"), NORM),
    "resi_dual": (Branch((SUBLAYER,), label="two streams"), NORM),
}


def sublayer_steps(config: ResolvedConfig) -> tuple[Any, ...]:
    """Returns the steps of one sublayer: `NORM`, `SUBLAYER`, and `Branch`es of them.

    `Block.sublayer` of the config's placement is called with steps instead of arrays, so that the
    order is that of the code. A placement that computes with several vectors of each token cannot be
    followed: a label says what is added to the sublayer, and of placements of plug-ins the steps are
    those of a sublayer alone.

    Args:
        config: the `model` part, as the layer sees it.
    """
    if (own := _OWN_STEPS.get(config.norm.placement)) and config.norm.kind != "none":
        return own
    placement = PLACEMENT_KINDS.code_of(config.norm.placement)
    scaled = "× α" if placement.constants(config, None)[0] != 1 else ""

    def add(x: _Stream, y: _Stream, *_: Any) -> _Stream:
        return x.after(Branch(y.steps[len(x.steps) :], config.residual, scaled))

    def norm(x: _Stream, *_: Any) -> _Stream:
        return x if config.norm.kind == "none" else x.after(NORM)

    block, context = SimpleNamespace(add=add, combine=add), SimpleNamespace(layer_index=0)
    try:
        found = placement.sublayer(block, _Stream(), lambda x: x.after(SUBLAYER), norm, norm, context, "attention")
        return found.steps
    except (AttributeError, TypeError):
        labels = (label for trait, label in _ADDED.items() if config.norm.placement in PLACEMENT_KINDS.having(trait))
        if not (label := next(labels, "")):
            return (Branch((SUBLAYER,), residual=False),)
        return (Branch(((NORM,) if config.norm.kind != "none" else ()) + (SUBLAYER,), label=label),)
