"""`python -m publication.variant_pages DIR` writes a page of every variant, pictures and an index."""

import argparse
from pathlib import Path

from publication.verdicts import Findings, judged_by, read_findings
from zoo.variants.table import VARIANTS
from zoo.variants.variant_page import index, render

PICTURES = "pictures"
ROOT = Path(__file__).parents[1]


def pages(findings: Findings) -> dict[str, str]:
    """Returns {file name: text} of all pages and the index."""
    return {
        f"{variant.name}.md": render(
            variant, judged_by(variant, findings), f"{PICTURES}/{variant.name}.svg" * bool(variant.picture)
        )
        for variant in VARIANTS
    } | {"README.md": index()}


def findings() -> Findings:
    """Returns the verdicts that this checkout's docs/results hold."""
    return read_findings(ROOT / "docs" / "results", ROOT / "tests" / "claims", "../results")


def write_pages(directory: Path) -> None:
    """Writes the pages, and removes pages of variants that no longer exist."""
    _write(directory, pages(findings()))


def write_pictures(directory: Path, names: set[str]) -> None:
    """Draws the pictures of the named variants, and removes those of variants without one."""
    from publication.variant_pictures import draw
    from zoo.draw.style import save

    drawn = {f"{variant.name}.svg": variant for variant in VARIANTS if variant.picture}
    for old in directory.glob("*.svg"):
        if old.name not in drawn:
            old.unlink()
    for file, variant in drawn.items():
        if variant.name in names:
            save(draw(variant), directory / file)


def _write(directory: Path, written: dict[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.md"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (directory / name).write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Command line. Exits with 2 if the folder holds other pages, which would be removed."""
    parser = argparse.ArgumentParser(
        prog="python -m publication.variant_pages",
        description="Writes the page of every variant, their pictures, and an index, and removes the pages of "
        "variants that no longer exist.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="docs/variants, or an empty or new folder")
    directory = parser.parse_args(arguments).directory
    overview = directory / "README.md"
    known = overview.exists() and overview.read_text(encoding="utf-8").startswith(index().partition("\n")[0])
    if not known and (other := sorted(path.name for path in directory.glob("*.md"))):
        parser.error(f"{directory} has pages that are not of variants, such as {other[0]}, which would be removed")
    write_pages(directory)
    write_pictures(directory / PICTURES, {variant.name for variant in VARIANTS})


if __name__ == "__main__":
    main()
