"""Small configs whose pictures the tests draw."""

from tests.support.small_runs import OBJECTIVES, small
from zoo.config import override, resolve

TINY = {"model__dim": 16, "model__num_layers": 2, "model__attention__num_heads": 4}


def resolved(kind="causal", **changes):
    return resolve(small(**OBJECTIVES[kind], **TINY, **changes))


def hybrid(kind, **fields):
    """A decoder whose first layer is of another kind, and whose second has attention with RoPE."""
    changes = {
        "model.layers.pattern": ("s", "f"),
        "model.position.kind": "rope",
        "model.layers.kinds.s.position.kind": "none",
        "model.layers.kinds.f.attention.window": 0,
        "model.layers.kinds.s.attention.kind": kind,
        **{f"model.layers.kinds.s.attention.{name}": value for name, value in fields.items()},
    }
    return resolve(override(small(**TINY), changes))
