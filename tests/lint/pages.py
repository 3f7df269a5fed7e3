"""Rules for pages: links, the navigation of the site, versions and notebooks."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.lint.problem import ROOT, Problem, at, line_of

TOP = ("README.md", "CONTRIBUTING.md", "AGENTS.md")
MAX_NOTEBOOK = 100_000
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def links(root: Path = ROOT) -> Iterator[Problem]:
    """Finds links of the pages at the root to files that do not exist."""
    for page in TOP:
        text = (root / page).read_text(encoding="utf-8")
        for found in LINK.finditer(text):
            # The workflow badge is served by the code host, relative to the repository's page.
            workflow = found[1].removeprefix("../../actions/workflows/").removesuffix("/badge.svg")
            target = root / found[1] if workflow == found[1] else root / ".github" / "workflows" / workflow
            if not target.exists():
                yield at(root / page, f"there is no {found[1]}", line_of(text, found.start()), root)


def navigation(root: Path = ROOT) -> Iterator[Problem]:
    """Finds pages that the site's navigation lacks, and entries of it without a page."""
    path = root / "mkdocs.yml"
    text = path.read_text(encoding="utf-8")
    listed = re.findall(r": (\S+(?:\.md|/))$", text.partition("\nnav:\n")[2], re.MULTILINE)
    pages = {page.relative_to(root / "docs").as_posix() for page in (root / "docs").rglob("*.md")}
    # An entry that ends in a slash is a folder, whose pages docs/.site/hooks.py lists.
    folders = tuple(entry for entry in listed if entry.endswith("/"))
    for page in sorted(page for page in pages - set(listed) if not page.startswith(folders)):
        yield at(root / "docs" / page, "the navigation in mkdocs.yml lacks this page", 1, root)
    for entry in sorted(set(listed) - set(folders) - pages):
        yield at(path, f"there is no docs/{entry}", line_of(text, text.index(entry)), root)


def versions(version: str, root: Path = ROOT) -> Iterator[Problem]:
    """Finds files that state another version than the package."""
    for name, pattern in (("CITATION.cff", r"^version: (.*)$"), ("CHANGELOG.md", r"^## (\S+)")):
        text = (root / name).read_text(encoding="utf-8")
        found = re.search(pattern, text, re.MULTILINE)
        if found is None or found[1] != version:
            line = line_of(text, found.start()) if found else 1
            yield at(root / name, f"states version {found and found[1]}, and the package has {version}", line, root)


def notebooks(folder: Path = ROOT / "docs" / "notebooks", root: Path = ROOT) -> Iterator[Problem]:
    """Finds notebooks without a title, with cells that were not run in order, or of many bytes."""
    for path in sorted(folder.glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        if not text or not text[0].startswith("# "):
            yield at(path, "the first text of the notebook is no title", 1, root)
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        if [cell.get("execution_count") for cell in code] != [*range(1, len(code) + 1)]:
            yield at(path, "the cells were not run in order; run python -m publication notebooks", 1, root)
        if path.stat().st_size > MAX_NOTEBOOK:
            yield at(path, f"the notebook has more than {MAX_NOTEBOOK:,} bytes; draw smaller pictures", 1, root)
