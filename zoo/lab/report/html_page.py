"""One HTML file that needs nothing else: no network, no server, no other file.

The page's content security policy allows only the one script with the given hash, so text that was
not escaped still could not run. The scripts in `web/` that draw the charts have 60 kB together;
Plotly alone would make every page 4.8 MB, and lays out saved figures in its own way.
"""

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from zoo.lab.report import run_tables
from zoo.lab.report.about import about_line
from zoo.lab.report.html_tables import escape, unbroken
from zoo.lab.report.panels import PANELS
from zoo.lab.report.plot_data import plot_data
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import Verdict

SCRIPTS = (
    "state.js",
    "match.js",
    "axes.js",
    "chart.js",
    "figure.js",
    "curves.js",
    "differences.js",
    "heat.js",
    "tables.js",
    "follow.js",
    "page.js",
)
NOSCRIPT = '<p class="without-script note">The charts and tabs need JavaScript; everything else is below.</p>'


def embed_json(value: Any) -> str:
    """Returns JSON that cannot end or open an element when it is inside a script element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _script() -> str:
    """Returns all scripts as one, in a scope of its own."""
    web = files("zoo.lab.report") / "web"
    parts = "\n".join((web / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return f"(function () {{\n'use strict';\n{parts}}})();"


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _panels(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    found = [(name, title, panel(sweep, verdict, folder)) for name, title, panel in PANELS]
    return "".join(
        f'<div role="tabpanel" id="{name}" data-title="{title}">{content}</div>'
        for name, title, content in found
        if content
    )


def render(sweep: SweepResults, verdict: Verdict, folder: Path | None, version: str | None = None) -> str:
    """Returns the whole page.

    Args:
        sweep: from `zoo.lab.results`.
        verdict: on the sweep.
        folder: where the page will be saved: it names the folders of the runs from there; None for a
            page that is not saved.
        version: for a page that is served while runs continue: it polls `version` for a newer one,
            and loads its contents from `.`.
    """
    script = _script()
    style = (files("zoo.lab.report") / "web" / "report.css").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src 'unsafe-inline'; img-src data: blob:; "
        f"connect-src {repr('none') if version is None else repr('self')}; base-uri 'none'; form-action 'none'"
    )
    question = f'<p class="question">{unbroken(sweep.question)}</p>' if sweep.question else ""
    about = f'<p class="soft">{escape(line)}</p>' if (line := about_line(sweep)) else ""
    live = "" if version is None else '<span id="live" role="status">live</span>'
    content = "".join(
        [
            f'<header><div class="head"><h1>{escape(sweep.name)}</h1>{question}',
            f'<p class="soft">{escape(run_tables.summary(sweep))}</p>{about}</div>',
            f'<div class="corner">{live}<button type="button" id="theme" hidden></button></div></header>',
            '<nav aria-label="parts of the report"><div class="tabs" role="tablist" hidden></div></nav>',
            f"{NOSCRIPT}<main>{_panels(sweep, verdict, folder)}</main>",
        ]
    )
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(sweep.name)}</title>\n<style>\n{style}</style>\n"
        f"</head><body{'' if version is None else f' data-version={json.dumps(escape(version))}'}>{content}\n"
        f'<script type="application/json" id="report-data">{embed_json(plot_data(sweep))}</script>\n'
        f"<script>{script}</script>\n</body></html>\n"
    )
    # JSON files and folder names may contain lone surrogates, which UTF-8 cannot hold.
    return page.encode("utf-8", "replace").decode("utf-8")
