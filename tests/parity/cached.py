"""The section of docs/parity.md on cached decoding; `tests/decoding/test_cached.py` makes the same
comparisons.
"""

import re
from collections.abc import Mapping

import numpy as np

from tests.decoding.combinations import COMBINATIONS, DECODERS, ENCODER_DECODERS, combined
from tests.decoding.making import stepwise_and_full_scores

TOLERANCE = 1e-5
SCHEMES = {(f"`{position}`", str(window or "none"), f"{kv_heads} of 4"): combined(position, window, kv_heads)
           for position, window, kv_heads in COMBINATIONS}  # fmt: skip
OTHERS = {(kind, name): overrides for kind, all_of in (("decoder", DECODERS), ("encoder-decoder", ENCODER_DECODERS))
          for name, overrides in all_of.items()}  # fmt: skip
CASES = SCHEMES | OTHERS
Figures = Mapping[tuple[str, ...], float]
ROW = re.compile(r"\| ((?:[^|]+ \| )+)(\S+) \|")
INTRODUCTION = """
## Decoding with a cache

Tiny models with random weights, in float32 on a CPU, score the next token after each of the 16 tokens that
follow prompts of 3, 9 and 1 tokens in one batch, once step by step with the cache and once in one pass over all
tokens. *Difference* is the largest one at any position of any row, relative to the largest score
(`python -m tests.parity.table cached`; `tests/decoding/test_cached.py` accepts 1e-5 for each). With a window of
3 the cache is a ring of 3 slots, which every text fills five times over. RoPE that stretches with the text
(`model.position.scaling.kind=dynamic`) cannot use a cache and is refused by name; the table includes it where
only an encoder has it.

| Positions | Window | Key heads | Difference |
| --- | --- | --- | --- |
"""
BETWEEN = """
| Model | What it shows | Difference |
| --- | --- | --- |
"""


def measure() -> dict[tuple[str, ...], float]:
    """Measures the largest difference of every case."""
    found = {}
    for case, overrides in CASES.items():
        cached, expected = (np.asarray(scores, np.float64) for scores in stepwise_and_full_scores(overrides))
        found[case] = float(np.abs(cached - expected).max() / np.abs(expected).max())
        print(f"{', '.join(case)}: {found[case]:.0e}", flush=True)
        if not found[case] <= TOLERANCE:
            raise SystemExit(f"{', '.join(case)} differs by more than {TOLERANCE:g}")
    return found


def written(text: str) -> dict[tuple[str, ...], float]:
    """Reads the figures from the text of docs/parity.md."""
    _, _, section = text.partition(INTRODUCTION)
    rows = {tuple(cells.removesuffix(" | ").split(" | ")): figure for cells, figure in ROW.findall(section)}
    return {case: float(rows[case]) for case in CASES if case in rows}


def section(figures: Figures) -> str:
    """Renders the section, with a line for every case."""
    from tests.parity.table import rounded

    def lines(cases):
        return "".join(f"| {' | '.join(case)} | {rounded(figures[case])} |\n" for case in cases)

    return INTRODUCTION + lines(SCHEMES) + BETWEEN + lines(OTHERS)
