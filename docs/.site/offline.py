"""Makes a site that works from files without a network, search included, and keeps it small.

The plug-in `offline` of Material for MkDocs does the first with a script from another host.
"""

import io
import json
import logging
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from PIL import Image

LOG = logging.getLogger("mkdocs.hooks.offline")
SHIM, INDEX = "search/from_files.js", "search/search_index"
WORKERS = "assets/javascripts/workers/search.*.min.js"
# Files of the theme that no page loads: search in other languages than English, maps for debuggers.
UNUSED = re.compile(r"assets/javascripts/lunr/.*|assets/.*\.map")
# What a browser loads by itself, unlike the target of a link.
LOADED = re.compile(
    r"<(?:script|img|iframe|link|source|video|audio|embed|object)\b[^>]*?"
    r"\s(?:src|href|data|srcset)\s*=\s*[\"']?((?:https?:)?//[^\s\"'>]+)",
    re.IGNORECASE,
)
# What keeps its spaces.
VERBATIM = re.compile(r"(<(pre|script|style|textarea)\b.*?</\2>)", re.DOTALL | re.IGNORECASE)
BREAKS = re.compile(r"\s*\n\s*")
# Next to a tag of the header or the navigation, where no line break shows.
BESIDE_TAGS = re.compile(r"(?<=>)\n|\n(?=<)")
# Names, punctuation and spaces in code, which need no colour of their own.
PLAIN = re.compile(r'<span class="(?:n|p|w)">([^<]*)</span>')
# The text of a link of the navigation, in an element that shortens what is too long for a line.
LINK_TEXT = re.compile(r'(class="md-nav__link[^"]*">)\s*<span class="md-ellipsis">([^<]*)</span>\s*(?=</a>)')
# What the theme repeats in every page: the script that applies the colour scheme that a reader has
# chosen, and the element of the search, which is empty until a script fills it.
SHARED = {
    "search/palette.js": (re.compile(r"<script>(var palette=.*?)</script>", re.DOTALL), lambda found: found[1]),
    "search/dialog.js": (
        re.compile(r'<div class="md-search" .*?<ol class="md-search-result__list"[^>]*></ol>(?:</div>){5}', re.DOTALL),
        lambda found: f"document.write({json.dumps(found[0])})",
    ),
}
# The relative address of another shared script tells where a page finds this one.
SHIM_ADDRESS = re.compile(rf'src="([^"]*){re.escape(SHIM)}"')
# An attribute that SVG needs in a file of its own and not within HTML, and the name of the generator.
NEEDLESS = re.compile(r' xmlns="http://www\.w3\.org/2000/svg"|<meta name="generator"[^>]*>')
COLOURS = 48
MAX_MB = 30


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lets every page load the script that starts the search, before those of the theme."""
    config.extra["polyfills"] = [*config.extra.get("polyfills", ()), SHIM]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Leaves out files of the theme that no page loads."""
    del config
    for file in list(files):
        if UNUSED.fullmatch(file.src_uri):
            files.remove(file)
    return files


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Warns of whatever a page would load from another host, and leaves out what no reader sees."""
    for found in LOADED.finditer(output):
        LOG.warning("%s loads %s; keep the file in docs/", page.file.src_uri, found[1])
    return _with_shared_scripts(compact(output), Path(config.site_dir))


def _with_shared_scripts(html: str, site: Path) -> str:
    """Returns a page that loads from files what is the same in all pages (`SHARED`); the first page
    writes the files.
    """
    above = SHIM_ADDRESS.search(html)
    for name, (pattern, script) in SHARED.items():
        found = above and pattern.search(html)
        if not found:
            continue
        if not (site / name).exists():
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_text(script(found), encoding="utf-8")
        html = html.replace(found[0], f'<script src="{above[1]}{name}"></script>', 1)
    return html


def compact(html: str) -> str:
    """Returns a page without indentation, half of what the theme writes, without marks of code that
    has the colour of the text around it, and without an element around the text of each link of the
    navigation.
    """
    parts = VERBATIM.split(html)
    # Each match is three parts: the text before it, all of it, and the name of its element.
    texts = (NEEDLESS.sub("", BREAKS.sub("\n", text)) for text in parts[::3])
    kept = (PLAIN.sub(r"\1", text) for text in [*parts[1::3], ""])
    page = "".join(part for pair in zip(texts, kept, strict=True) for part in pair)
    navigation, article, text = page.partition("<article")
    return LINK_TEXT.sub(r"\1\2", BESIDE_TAGS.sub("", navigation)) + article + text


def with_palette(png: bytes) -> bytes:
    """Returns a picture with the `COLOURS` that are nearest to its own, if that makes it smaller."""
    written = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        full = picture.convert("RGBA")
        # A picture that hides nothing behind it needs no transparency.
        full = full.convert("RGB") if full.getextrema()[3] == (255, 255) else full
        reduced = full.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        reduced.save(written, "png", optimize=True)
    return min(png, written.getvalue(), key=len)


# After the search's plug-in, which writes the index.
@event_priority(-100)
def on_post_build(config: MkDocsConfig) -> None:
    """Writes the index of the search and its worker as scripts, since a page may read no other files,
    and warns if the site is large.
    """
    site = Path(config.site_dir)
    index = json.loads((site / f"{INDEX}.json").read_text(encoding="utf-8"))
    # If the page is a file, the theme's script loads this one and takes the index from this variable.
    # Otherwise it reads the other one, and from_files.js adds the documents.
    (site / f"{INDEX}.js").write_text(f"var __index = {json.dumps(index, ensure_ascii=False)}", encoding="utf-8")
    (site / f"{INDEX}.json").write_text(json.dumps(index | {"docs": []}), encoding="utf-8")
    (worker,) = site.glob(WORKERS)
    shim = Path(__file__).with_name("from_files.js").read_text(encoding="utf-8")
    text = f"const WORKER = {json.dumps(worker.read_text(encoding='utf-8'))};\n{shim}"
    (site / SHIM).write_text(text, encoding="utf-8")
    for path in site.rglob("*.png"):
        path.write_bytes(with_palette(path.read_bytes()))
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 1e6
    if size > MAX_MB:
        LOG.warning("the site has %.0f MB, and at most %d are intended", size, MAX_MB)
