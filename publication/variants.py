"""Files that are made of the variants and committed: the list of all of them, docs/variants.md, and
the lines that the package keeps, `zoo/variants/computed.json`.
"""

import json
import re
from pathlib import Path

from zoo.variants import VARIANTS
from zoo.variants.computed import FILE, compute
from zoo.variants.notation import LETTERS
from zoo.variants.variant import Variant
from zoo.variants.variant_page import computes, papers, setting

COMMAND = "python -m publication variants"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "variants.md"
# Pages about choices that are not variants of a model.
ELSEWHERE = (
    "[masking recipes and row formats](pretraining.md#masking)",
    "[tokenizers](tokenizers.md)",
    "[decoding and its cache](generation.md)",
    "[distillation](distillation.md)",
    "[optimizers and schedules](optimizers.md)",
    "[long documents](long_documents.md)",
)
FORMULA = re.compile(r"[=+*/^<|]|softmax|[Dd]ivide")


def computed_text() -> str:
    """Returns the text of `zoo/variants/computed.json`."""
    lines = {variant.name: compute(variant)._asdict() for variant in VARIANTS}
    return json.dumps(lines, indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """Returns the list of all variants in Markdown."""
    parts: dict[str, list[Variant]] = {}
    for variant in VARIANTS:
        parts.setdefault(variant.part, []).append(variant)
    text = [
        "# Variants",
        f"All variants, with the fields that choose them, equation and papers, written by `{COMMAND}`. "
        "`zoo describe NAME` prints the page of one: also its shapes and costs, the configs and experiments that use "
        "it, results that papers report, and the variants that it cannot be combined with. "
        "`zoo describe` lists all of them in a terminal.",
        "\n".join(
            f"- **{part.capitalize()}**: {', '.join(f'[{one.name}](#{one.name})' for one in variants)}"
            for part, variants in parts.items()
        ),
        "Equations use these letters: "
        + "; ".join(f"{letter}: {meaning}" for letter, meaning in LETTERS.items())
        + ". E is the table of token embeddings, P that of positions, W_x a matrix, h a hidden state, and x . y the "
        "product of two vectors; indices start at 0. A field is named without `model.` where that is clear.",
        "Choices outside the layers of a model have pages of their own: " + ", ".join(ELSEWHERE) + ".",
    ]
    for part, variants in parts.items():
        text += [f"## {part.capitalize()}", *(paragraph for variant in variants for paragraph in entry(variant))]
    return "\n\n".join(text) + "\n"


def entry(variant: Variant) -> list[str]:
    """Returns the paragraphs about a variant."""
    return [
        f"### {variant.name}",
        f"`{setting(variant)}`",
        *equation(variant),
        "\n".join(f"- {paper}" for paper in papers(variant)),
    ]


def equation(variant: Variant) -> list[str]:
    """Returns the paragraphs up to the equation, which may be an indented block."""
    paragraphs = computes(variant).split("\n\n")
    blocks = [number for number, text in enumerate(paragraphs) if text.startswith("    ")]
    found = blocks or [number for number, text in enumerate(paragraphs) if FORMULA.search(text)]
    return paragraphs[: found[0] + 1]


def write() -> list[Path]:
    """Writes both files and returns their paths."""
    FILE.write_text(computed_text(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    return [FILE, PAGE]
