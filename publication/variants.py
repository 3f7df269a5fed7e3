"""`python -m publication.variants` writes what is computed about all variants into the package."""

import json

from zoo.variants import VARIANTS
from zoo.variants.computed import FILE, compute


def computed_text() -> str:
    """Returns the text of `zoo/variants/computed.json`."""
    lines = {variant.name: compute(variant)._asdict() for variant in VARIANTS}
    return json.dumps(lines, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(computed_text(), encoding="utf-8")
