"""Makes a site that works from files without a network, search included, and keeps it small.

The plug-in `offline` of Material for MkDocs does the first with a script from another host.
"""

import json
import logging
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

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
    """Warns of whatever a page would load from another host."""
    del config
    for found in LOADED.finditer(output):
        LOG.warning("%s loads %s; keep the file in docs/", page.file.src_uri, found[1])
    return output


# After the search's plug-in, which writes the index.
@event_priority(-100)
def on_post_build(config: MkDocsConfig) -> None:
    """Writes the index of the search and its worker as scripts, since a page may read no other files,
    and warns if the site is large.
    """
    site = Path(config.site_dir)
    index = (site / f"{INDEX}.json").read_text(encoding="utf-8")
    # The theme's script loads this file and takes the index from this variable.
    (site / f"{INDEX}.js").write_text(f"var __index = {index}", encoding="utf-8")
    (worker,) = site.glob(WORKERS)
    shim = Path(__file__).with_name("from_files.js").read_text(encoding="utf-8")
    text = f"const WORKER = {json.dumps(worker.read_text(encoding='utf-8'))};\n{shim}"
    (site / SHIM).write_text(text, encoding="utf-8")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 1e6
    if size > MAX_MB:
        LOG.warning("the site has %.0f MB, and at most %d are intended", size, MAX_MB)
