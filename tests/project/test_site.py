"""The site works from files without a network, and its home page leads to every page."""

import html
import re
from pathlib import Path

import pytest

from tests.support.chromium import PROGRAM, Browser

pytest.importorskip("material", reason="the site's packages are not installed")

import mkdocs.exceptions
import numpy as np
import yaml
from mkdocs.commands.build import build
from mkdocs.config import load_config
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
VERBATIM = re.compile(r"<(pre|script|style)\b.*?</\1>", re.DOTALL)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Returns a function that builds a site of pages, {path: text}, with the settings and the offline
    hook of the real one, and returns its folder.
    """
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")

    def built(pages, nav=None):
        for path, text in pages.items():
            (tmp_path / "docs" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "docs" / path).write_text(text)
        build(
            load_config(
                str(ROOT / "mkdocs.yml"),
                docs_dir=str(tmp_path / "docs"),
                site_dir=str(tmp_path / "site"),
                hooks=["docs/.site/offline.py"],
                nav=nav or list(pages),
                strict=True,
            )
        )
        return tmp_path / "site"

    return built


@pytest.mark.promise(reason="pages are opened in a browser")
@pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")
def test_search_from_files_without_a_network(site, tmp_path):
    address = site({"README.md": "# Home\n\nwords\n", "deep/er.md": "# Gates\n\nA zygomorphic gate.\n"}).as_uri()
    with Browser(tmp_path / "browser") as browser:
        browser.call("Network.setBlockedURLs", urls=["http://*", "https://*"])
        for page in ("index.html", "deep/er.html"):
            browser.open(f"{address}/{page}")
            browser.click(".md-search__input")
            browser.call("Input.insertText", text="zygomorphic")
            browser.until("document.querySelectorAll('.md-search-result__link').length")
            found = browser.run(
                "[...document.querySelectorAll('.md-search-result__link')].map((link) => [link.textContent, link.href])"
            )
            assert len(found) == 1
            assert "A zygomorphic gate." in found[0][0]
            assert found[0][1].startswith(f"{address}/deep/er.html")
        browser.open(found[0][1])
        assert browser.run("document.querySelector('article mark').textContent") == "zygomorphic"
        assert browser.problems == []
        assert browser.requests
        assert [
            url for url in browser.requests if not url.startswith((f"{address}/", "about:", "data:", "blob:"))
        ] == []


@pytest.mark.parametrize(
    "loaded",
    ['<script src="https://example.org/x.js"></script>', "![a picture](http://example.org/x.png)"],
    ids=["script", "picture"],
)
def test_a_page_that_loads_from_another_host_is_refused(site, caplog, loaded):
    with pytest.raises(mkdocs.exceptions.Abort):
        site({"README.md": f"# Home\n\n[a link](https://example.org)\n\n{loaded}\n"})
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert re.fullmatch(r"README.md loads https?://example.org/x.(js|png); keep the file in docs/", warnings[0])


def test_pages_hold_the_navigation_around_them_alone(site):
    names = {tab: [f"{tab}/{number}.md" for number in range(30)] for tab in ("how", "why")}
    pages = {name: f"# Page {name}\n\ntext\n" for tab in names.values() for name in tab} | {"README.md": "# Home\n"}
    folder = site(pages, [{"Home": "README.md"}, *({tab: paths} for tab, paths in names.items())])
    linked = set(re.findall(r'href="([^"#]*\d+\.html)"', (folder / "how" / "3.html").read_text()))
    assert {f"{number}.html" for number in range(30)} <= linked
    assert {link for link in linked if "why" in link} == {"../why/0.html"}


def test_smaller_pages_look_the_same(site, tmp_path):
    code = "def gate(x):\n\n    if x < 1:\n        return  'a &  b'\n"
    rows = np.arange(200)[:, None, None] + np.arange(200)[None, :, None] * np.array([1, 0, 1]) + np.zeros(3)
    picture = tmp_path / "docs" / "drawn.png"
    picture.parent.mkdir()
    Image.fromarray(rows.clip(0, 255).astype(np.uint8)).save(picture)
    folder = site({"README.md": f"# Home\n\n*one*\n`two`\n\n```python\n{code}```\n\n![](drawn.png)\n"})
    page = (folder / "index.html").read_text()
    shown = re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)[1]
    assert html.unescape(re.sub("<[^>]*>", "", shown)) == code
    assert "<em>one</em>\n<code>two</code>" in page
    assert re.search(r"\n\s", VERBATIM.sub("<!-- verbatim -->", page)) is None
    small = Image.open(folder / "drawn.png")
    assert (folder / "drawn.png").stat().st_size < picture.stat().st_size
    assert np.abs(np.asarray(small.convert("RGB"), int) - np.asarray(Image.open(picture), int)).max() < 40


def test_the_home_page_lists_the_pages_of_every_tab():
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    for tab, pages in (next(iter(entry.items())) for entry in navigation):
        listed = re.findall(r"\]\(([^)#]+)", text.partition(f"\n## {tab}\n")[2].partition("\n## ")[0])
        # A group of pages, and a folder, are listed by their first page or have a page elsewhere.
        alone = [next(iter(page.values())) for page in pages] if isinstance(pages, list) else []
        expected = {page for page in alone if isinstance(page, str) and not page.endswith("/")}
        expected |= {next(iter(page[0].values())) for page in alone if isinstance(page, list) and tab != "Home"}
        assert expected <= set(listed), tab


def test_the_answer_on_the_home_page_is_that_of_the_archive():
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    folder = DOCS / "results" / "norm_placement-quick"
    archived = (folder / "README.md").read_text(encoding="utf-8")
    assert "> Supported" in archived
    rows = re.findall(r"^\| p(?:ost|re)-norm [^|]*\| ([^|]+) \| ([^|]+) \| 6 \| ", archived, re.MULTILINE)
    assert len(rows) == 2
    for difference, interval in rows:
        assert f"{difference.removeprefix('−')} nats lower" in " ".join(text.split())
        assert interval in text
