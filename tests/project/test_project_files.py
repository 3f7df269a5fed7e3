"""Files beside the package that must agree with it."""

import re
from pathlib import Path

import zoo

ROOT = Path(__file__).parents[2]


def test_version_is_the_same_in_all_files():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == zoo.__version__
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == zoo.__version__


def test_links_of_top_level_pages_resolve():
    for page in ("README.md", "CONTRIBUTING.md", "AGENTS.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text()):
            # The workflow badge is served by GitHub, relative to the repository's page.
            workflow = target.removeprefix("../../actions/workflows/").removesuffix("/badge.svg")
            path = ROOT / target if workflow == target else ROOT / ".github" / "workflows" / workflow
            assert path.exists(), (page, target)


def test_every_page_is_in_the_site_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r": (\S+(?:\.md|/))$", navigation, re.MULTILINE)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    # An entry that ends in a slash is a folder; docs/.site/hooks.py lists its pages.
    folders = tuple(entry for entry in listed if entry.endswith("/"))
    assert sorted(page for page in pages - set(listed) if not page.startswith(folders)) == []
    assert set(listed) - set(folders) <= pages
