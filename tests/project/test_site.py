"""The site works from files without a network, and its home page leads to every page."""

import contextlib
import functools
import html
import http.server
import importlib.util
import re
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from publication.claim_lines import claim_rows
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


@pytest.fixture
def served():
    """Returns a function that serves a folder and returns its address."""
    with contextlib.ExitStack() as servers:

        def address(folder):
            handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
            server = servers.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            servers.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield address


@pytest.mark.promise(reason="pages are opened in a browser")
@pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("opened", ["from files", "from a server"])
def test_search_without_other_hosts(site, served, tmp_path, opened):
    folder = site({"README.md": "# Home\n\nwords\n", "deep/er.md": "# Gates\n\nA zygomorphic gate.\n"})
    address = folder.as_uri() if opened == "from files" else served(folder)
    with Browser(tmp_path / "browser") as browser:
        browser.call("Network.setBlockedURLs", urls=["https://*", *["http://*"] * (opened == "from files")])
        for page in ("index.html", "deep/er.html"):
            browser.open(f"{address}/{page}")
            browser.click(".md-search__input")
            browser.call("Input.insertText", text="zygomorphic")
            # The search reads the field when a key is released.
            browser.key("End")
            browser.until("document.querySelectorAll('.md-search-result__link').length")
            found = browser.run(
                "[...document.querySelectorAll('.md-search-result__link')].map((link) => [link.textContent, link.href])"
            )
            assert len(found) == 1
            assert "A zygomorphic gate." in found[0][0]
            assert found[0][1].startswith(f"{address}/deep/er.html")
        browser.open(found[0][1])
        browser.until("document.querySelector('article mark')?.textContent === 'zygomorphic'")
        # A page has the colours that its reader chose on another one.
        scheme = "document.body.getAttribute('data-md-color-scheme')"
        assert browser.run(scheme) == "default"
        browser.click("label[title=Dark]")
        browser.open(f"{address}/index.html")
        assert browser.run(scheme) == "slate"
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


def test_pages_share_the_scripts_of_their_colours_and_of_the_search(site):
    folder = site({"README.md": "# Home\n", "deep/er.md": "# Gates\n"})
    assert (folder / "search/palette.js").read_text().startswith("var palette=")
    assert (folder / "search/dialog.js").read_text().startswith('document.write("<div class=')
    for page, above in (("index.html", ""), ("deep/er.html", "../")):
        text = (folder / page).read_text()
        assert f'<script src="{above}search/palette.js"></script>' in text
        assert f'<script src="{above}search/dialog.js"></script></nav></header>' in text
        assert re.findall(r"var palette=|xmlns=|mkdocs-material-|md-search__", text) == []


def test_smaller_pages_look_the_same(site, tmp_path):
    code = "def gate(x):\n\n    if x < 1:\n        return  'a &  b'\n"
    picture = tmp_path / "docs" / "drawn.png"
    picture.parent.mkdir()
    shutil.copy(DOCS / "results" / "norm_kind" / "differences.png", picture)
    folder = site({"README.md": f"# Home\n\n*one*\n`two`\n\n```python\n{code}```\n\n![](drawn.png)\n"})
    page = (folder / "index.html").read_text()
    shown = re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)[1]
    assert html.unescape(re.sub("<[^>]*>", "", shown)) == code
    assert "<em>one</em>\n<code>two</code>" in page
    assert re.search(r"\n\s", VERBATIM.sub("<!-- verbatim -->", page)) is None
    assert re.search(r">\s|\s<", page.partition("<article")[0]) is None
    before, after = (np.asarray(Image.open(path).convert("RGB"), int) for path in (picture, folder / "drawn.png"))
    assert (folder / "drawn.png").stat().st_size < picture.stat().st_size / 2
    assert np.abs(after - before).max() < 32


def test_groups_of_pages_and_the_table_of_claims(monkeypatch):
    # The hook sets the width of help, for other tests too.
    monkeypatch.setenv("COLUMNS", "100")
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / ".site" / "hooks.py")
    spec.loader.exec_module(hooks := importlib.util.module_from_spec(spec))
    paths = [
        "results/README.md",
        "results/norm_kind/README.md",
        "results/heads/README.md",
        "results/measured/windows/README.md",
    ]
    parts = hooks.PARTS
    assert hooks.in_groups(paths) == [
        paths[0],
        {parts["A"]: [paths[2]]},
        {parts["N"]: [paths[1]]},
        {"Others": [paths[3]]},
    ]
    groups = ["variants/rope.md", "api/zoo.layers.attention.mask.md", "experiments/heads.md", "api/zoo.md"]
    assert [*map(hooks.group_of, groups)] == ["Position", "zoo.layers.attention", parts["A"], "Modules"]
    results = SimpleNamespace(file=SimpleNamespace(src_uri="results/findings.md"))
    linked = hooks.on_page_markdown("[N10](README.md), [O1](README.md#o1)", results, None, None)
    pages = [f"../{hooks.claim_page(claim)}#{claim.lower()}" for claim in ("N10", "O1")]
    assert linked == f"[N10]({pages[0]}), [O1]({pages[1]})"
    assert all(f"\n## {claim}\n" in hooks.claim_pages()[hooks.claim_page(claim)] for claim in ("N10", "O1"))
    # Equations of variants are set, and what looks like a link in code stays.
    entry = "y = [x; x](E) W_1 / sqrt(x_1 + x_2)"
    own = SimpleNamespace(file=SimpleNamespace(src_uri="variants/x.md"))
    page = hooks.on_page_markdown(f"# x\n\n## What it computes\n\n{entry}.\n\n## Paper\n\nx = y", own, None, None)
    assert page == f"# x\n\n## What it computes\n\n`$${entry}$$`.\n\n## Paper\n\nx = y"
    every = SimpleNamespace(file=SimpleNamespace(src_uri="variants.md"))
    page = hooks.on_page_markdown(f"## Part\n\n### x\n\n`a=b`\n\n{entry}.\n\n- x = y", every, None, None)
    assert page == f"## Part\n\n### x\n\n`a=b`\n\n`$${entry}$$`.\n\n- x = y"
    assert "<mfrac>" in hooks.on_page_content(f"<code>$${entry}$$</code>", own, None, None)
    table = hooks.one_row_per_claim((DOCS / "results" / "README.md").read_text(encoding="utf-8")).partition(
        "| | claim |"
    )[2]
    rows = [line[2:-2].split(" | ") for line in table.partition("\n\n")[0].splitlines()[2:]]
    assert [row[0] for row in rows] == [f"[{claim}](README.md)" for claim in claim_rows(DOCS / "results")]
    assert {len(row) for row in rows} == {5}
    (split,) = (row for row in rows if row[0].startswith("[N5]"))
    assert "./norm_kind/README.md" in split[3]
    assert "./measured/norm_time/README.md" in split[3]


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
