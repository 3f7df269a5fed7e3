"""The page in a real browser: it draws, its controls work, and nothing hostile runs."""

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess

import pytest
from lab_reports import write_comparison, write_report

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

# Presses every control twice, counting what went wrong and what is drawn; the result is left in the title.
PROBE = """
const seen = {errors: [], violations: [], alerts: 0};
addEventListener('error', (event) => seen.errors.push(String(event.message)));
document.addEventListener('securitypolicyviolation', (event) => seen.violations.push(event.violatedDirective));
window.alert = () => { seen.alerts += 1; };
addEventListener('load', () => {
  const lines = () => document.querySelectorAll('#curves-plot .scatterlayer .js-line').length;
  seen.plots = [...document.querySelectorAll('.plot')].filter((plot) => plot.querySelector('svg.main-svg')).length;
  seen.lines = lines();
  seen.legend = [...document.querySelectorAll('.legend')].map((list) => list.children.length);
  document.querySelectorAll('.choice button').forEach((button) => button.click());
  document.querySelectorAll('.controls input').forEach((box) => { box.click(); });
  document.querySelectorAll('.controls input').forEach((box) => { box.click(); });
  document.querySelectorAll('.choice').forEach((choice) => choice.querySelector('button').click());
  seen.again = lines();
  const first = () => document.querySelector('.legend button');
  first().click();
  seen.hidden = lines();
  seen.pressed = first().getAttribute('aria-pressed');
  first().click();
  seen.back = lines();
  seen.overflow = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  seen.text = [...document.querySelectorAll('.plot text')].map((text) => text.textContent).join(' | ');
  document.title = JSON.stringify(seen);
});
"""


def look(page, tmp_path, width=1280):
    """Opens the page with the probe in it, allowed by its hash, and returns what the probe saw."""
    text = page.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(PROBE.encode()).digest()).decode()
    text = text.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    text = text.replace("</main>", f"</main><script>{PROBE}</script>", 1)
    probed = tmp_path / "probed.html"
    probed.write_text(text, encoding="utf-8")
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},2000",
        "--virtual-time-budget=20000", "--dump-dom"]
    out = subprocess.run([CHROMIUM, *flags, probed.as_uri()], capture_output=True, text=True, timeout=300).stdout
    return json.loads(html.unescape(re.search(r"<title>(.*?)</title>", out, re.DOTALL)[1]))


@pytest.mark.slow
def test_plots_and_controls(writer, tmp_path):
    seen = look(write_report(writer.sweep(lengths=True, broken=True)), tmp_path)
    assert (seen["errors"], seen["violations"]) == ([], [])
    assert seen["plots"] == 3
    assert seen["legend"] == [4, 4]
    assert seen["lines"] == seen["again"] == seen["back"] > seen["hidden"] > 0
    assert seen["pressed"] == "false"
    assert not seen["overflow"]


@pytest.mark.slow
def test_hostile_names_stay_text(writer, tmp_path):
    evil = {"model": {"name": "<b>bold</b><script>alert(1)</script>", "other": "\"'><img src=x onerror=alert(2)>"}}
    runs = [writer.run("plain"), writer.run("javascript:alert(3)", config=evil, final=2.0)]
    seen = look(write_comparison(runs, tmp_path / "page.html"), tmp_path, width=600)
    assert (seen["errors"], seen["violations"], seen["alerts"]) == ([], [], 0)
    assert seen["plots"] == 2
    assert "<b>bold</b>" in seen["text"]
    assert not seen["overflow"]
