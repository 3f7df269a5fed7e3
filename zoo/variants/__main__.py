"""`python -m zoo.variants DIR` writes the page of every variant, and an index."""

import sys
from pathlib import Path

from zoo.variants.table import VARIANTS
from zoo.variants.variant_page import index, render


def pages() -> dict[str, str]:
    """Returns {file name: text} of all pages and the index."""
    return {f"{variant.name}.md": render(variant) for variant in VARIANTS} | {"README.md": index()}


def main(folder: str) -> None:
    """Writes the pages, and removes pages of variants that no longer exist."""
    directory = Path(folder)
    directory.mkdir(parents=True, exist_ok=True)
    written = pages()
    for old in directory.glob("*.md"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m zoo.variants DIR")
    main(sys.argv[1])
