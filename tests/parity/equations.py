"""The section of docs/parity.md on variants of the decoder: each is compared with the equations of its
paper, written in float64 numpy in `tests/reference/`.
"""

import re
from collections.abc import Mapping

import numpy as np

from tests import reference
from tests.support.building import compiled, counting, random_statistics, random_values, tiny, together, with_values
from zoo.models.architectures import make_model
from zoo.variants import VARIANTS
from zoo.variants.variant import Variant

LENGTH = 24
SIZE = {
    "data.sequence_length": LENGTH,
    "model.dim": 32,
    "model.num_layers": 2,
    "model.attention.num_heads": 8,
    "model.attention.head_dim": 8,
    "model.ffn.hidden_dim": "auto",
}
# A variant must differ from the baseline on rows of `LENGTH` tokens; a convolution has no heads.
OTHER_SETTINGS = {
    "window": {"model.attention.window": 5},
    "clipped-qkv": {"model.attention.clip": 0.5},
    "looped-layers": {"model.num_layers": 4},
    "input-reinjection": {"model.num_layers": 4},
    "gated-convolution": {"model.attention.num_heads": 4, "model.attention.head_dim": "auto"},
}
# FAVOR+ only approximates its equation and is compared with performer-pytorch; "zero-outputs" changes
# only initial values, and numbers of loops are drawn in training alone.
EXCLUDED = {"performer", "zero-outputs", "poisson-loops", "uniform-loops"}
TOLERANCE = 1e-5
ROW = re.compile(r"\| \[`([^`]+)`\]\(variants\.md#[^)]+\) \| [^|]+ \| (\S+) \|")
INTRODUCTION = """
## Variants beside their equations

A decoder with random weights, which differs from the GPT of [the variants](variants.md) in one variant,
scores two rows of 24 tokens in float32 on a CPU. The same model, written in float64 numpy from the papers'
equations without any code of the project (`tests/reference/`), scores the same rows. *Difference* is the
largest one, relative to the largest score (`python -m tests.parity.table equations`). Variants that no library
has are compared in this way alone. The tests of `tests/layers/` and `tests/models/` compare more settings, packed and
padded rows, and the other architectures.

| Variant | Part | Difference |
| --- | --- | --- |
"""


def cases() -> dict[str, Variant]:
    """The variants that change the decoder, by name."""
    return {
        variant.name: variant
        for variant in VARIANTS
        if variant.baseline == "decoder"
        and variant.name not in EXCLUDED
        and any(path.startswith("model.") for path in variant.changes)
        and variant.changes.get("model.architecture", "decoder") == "decoder"
    }


def scores(changes: Mapping) -> tuple[np.ndarray, np.ndarray]:
    """Returns the scores [2, T, V] of a decoder, and those of the equations."""
    config = tiny(SIZE | dict(changes))
    model = make_model(config)
    values, statistics = random_values(model, 1), random_statistics(model, 1)
    tokens = np.random.default_rng(0).integers(0, config.model.vocab_size, (2, LENGTH))

    def use(values, statistics, tokens):
        held, context = with_values(model, values, statistics), counting(LENGTH, True)
        return held.logits(held(tokens, context), context)

    rows = reference.Rows(np.tile(np.arange(LENGTH), (2, 1)))
    expected = reference.batch_logits(config.model, together(values, statistics), tokens, rows)
    return compiled(use)(values, statistics, tokens), expected


def measure() -> dict[str, float]:
    """Measures the largest difference of every variant.

    Raises:
        SystemExit: a difference exceeds `TOLERANCE`, or a variant has the scores of the baseline.
    """
    found, baseline = {}, scores({})[1]
    for name, variant in cases().items():
        actual, expected = scores({**variant.changes, **OTHER_SETTINGS.get(name, {})})
        found[name] = float(np.abs(actual - expected).max() / np.abs(expected).max())
        print(f"{name}: {found[name]:.0e}", flush=True)
        if not found[name] <= TOLERANCE:
            raise SystemExit(f"{name} differs by more than {TOLERANCE:g} from its equation")
        if expected.shape == baseline.shape and np.allclose(expected, baseline):
            raise SystemExit(f"{name} has the scores of the baseline")
    return found


def written(text: str) -> dict[str, float]:
    """Reads the figures from the text of docs/parity.md."""
    rows = {name: float(figure) for name, figure in ROW.findall(text)}
    return {name: rows[name] for name in cases() if name in rows}


def section(figures: Mapping[str, float]) -> str:
    """Renders the section, with a line for every variant."""
    from tests.parity.table import rounded

    return INTRODUCTION + "".join(
        f"| [`{name}`](variants.md#{name}) | {variant.part} | {rounded(figures[name])} |\n"
        for name, variant in cases().items()
    )
