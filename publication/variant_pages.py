"""Pages of all variants for the site, with their pictures and the verdicts on their claims."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from publication.variant_pictures import draw
from publication.verdicts import Findings, judged_by, read_findings
from zoo.draw.style import save
from zoo.variants.table import VARIANTS
from zoo.variants.variant import Variant
from zoo.variants.variant_page import render

ROOT = Path(__file__).resolve().parents[1]
PICTURES = "pictures"


def findings() -> Findings:
    """Returns the verdicts in docs/results, with links from the pages."""
    return read_findings(ROOT / "docs" / "results", ROOT / "tests" / "claims", "../results")


def pages() -> dict[str, str]:
    """Returns {file name: text} of the page of every variant."""
    found = findings()
    return {f"{variant.name}.md": page(variant, found) for variant in VARIANTS}


def page(variant: Variant, found: Findings) -> str:
    """Returns the page of a variant."""
    return render(variant, judged_by(variant, found), f"{PICTURES}/{_file(variant)}" if variant.picture else "")


def pictures(variants: Iterable[Variant] = VARIANTS) -> dict[str, bytes]:
    """Returns {file name: SVG} of the variants that have a picture."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for variant in variants:
            if (figure := draw(variant)) is not None:
                found[_file(variant)] = save(figure, Path(folder) / _file(variant)).read_bytes()
    return found


def _file(variant: Variant) -> str:
    return f"{variant.name}.svg"
