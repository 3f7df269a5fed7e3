"""The whole page in a real browser: tabs, colours, widths, no script, hostile names, updates."""

import json
import threading

import pytest

from tests.lab.report.browser.pages import LEGEND, choose, in_a_browser, open_page, panels, texts
from tests.lab.report.lab_reports import write_page
from zoo.lab.report.server import Pages, Server
from zoo.lab.results.comparison import load_comparison
from zoo.lab.results.sweep_results import load_sweep

pytestmark = in_a_browser


def test_tabs_by_keys_and_clicks(page):
    names = ["overview", "curves", "differences", "factors", "dynamics", "runs", "configs", "samples", "reproduce"]
    assert panels(page) == ["overview"]
    page.run("document.querySelector('[role=tab]').focus()")
    opened = []
    for key in ("ArrowRight", "ArrowRight", "End", "ArrowRight", "ArrowLeft", "Home"):
        page.key(key)
        assert page.run("document.activeElement.getAttribute('aria-selected')") == "true"
        assert page.run("document.querySelectorAll('[role=tab][tabindex=\"0\"]').length") == 1
        opened += panels(page)
    assert opened == ["curves", "differences", "reproduce", "overview", "reproduce", "overview"]
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for name in names:
        page.click(f"#tab-{name}")
        assert panels(page) == [name]
        assert page.run("location.hash") == f"#{name}"
        assert page.run(f"[...document.querySelectorAll('#{name} .plot')].every((plot) => plot.querySelector('svg'))")
    page.key("Tab")
    assert page.run("document.activeElement.closest('[role=tabpanel]').id") == "reproduce"


def test_colours_follow_the_system_and_the_choice(page):
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.run(paper)
    page.scheme("dark")
    dark = page.run(paper)
    assert light != dark
    page.click("#theme")
    assert page.run(paper) == light
    page.click("#theme")
    page.scheme("light")
    assert page.run(paper) == dark
    page.until("document.querySelector('#overview-plot text').getAttribute('fill') === '#a0abb8'")
    page.click("#theme")


@pytest.mark.parametrize("width", [360, 400, 768, 1280, 2000])
def test_nothing_is_wider_than_the_screen(page, width):
    page.resize(width, 800)
    for name in page.run("[...document.querySelectorAll('[role=tabpanel]')].map((panel) => panel.id)"):
        page.run(f"document.getElementById('tab-{name}').click()")
        assert page.run("document.documentElement.scrollWidth") <= width, name


def test_lines_do_not_break_at_the_hyphens_of_names(page):
    lines = "[...document.querySelectorAll('.verdict .short, th .short')].map((word) => word.getClientRects().length)"
    for width in range(360, 460, 10):
        page.resize(width, 800)
        assert max(page.run(lines)) == 1, width
    assert {"warm-up=100", "warm-up"} <= set(texts(page, ".verdict .short, th .short"))


def test_all_tabs_are_shown_without_javascript(browser, writer):
    folder = writer.sweep()
    path = write_page(load_sweep(folder), folder / "report.html")
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        open_page(browser, path.as_uri())
        assert panels(browser) == ["overview", "curves", "differences", "factors", "runs", "configs", "reproduce"]
        assert "This plot needs JavaScript" in browser.run("document.querySelector('#curves').innerText")
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_hostile_names_stay_text(browser, writer, tmp_path):
    name = "</script><img src=x onerror=alert(1)>"
    evil = {"model": {name: "<b>bold</b><script>alert(2)</script>", "other": "\"'><img src=x onerror=alert(3)>"}}
    runs = [
        writer.run("plain"),
        writer.run("javascript:alert(4)", config=evil, final=2.0, reason=name, meta={"command": name}),
    ]
    (runs[1] / "dynamics.jsonl").write_text(
        json.dumps({"step": 1, name: {name: 1.0}, "__proto__": {"constructor": 2.0}})
    )
    (runs[1] / "samples.jsonl").write_text(json.dumps({name: name}))
    open_page(browser, write_page(load_comparison(runs), tmp_path / "page.html").as_uri())
    for tab in browser.run("[...document.querySelectorAll('[role=tab]')].map((tab) => tab.id)"):
        browser.click(f"#{tab}")
    browser.click("#tab-curves")
    browser.mouse("mouseMoved", 640, 500, buttons=0)
    browser.click("#tab-dynamics")
    browser.click("#dynamics image")
    assert name in browser.run("document.querySelector('#dynamics .tip').textContent")
    assert browser.problems == []
    assert browser.run("document.querySelectorAll('img, b:not(.tip b)').length") == 0
    assert "javascript:alert(4)" in browser.run("document.querySelector('.legend').textContent")
    assert "<b>bold</b>" in browser.run("document.querySelector('#configs').textContent")


def test_a_live_page_is_updated_in_place(browser, writer):
    folder = writer.sweep()
    (folder / "pre-0-2" / "status.json").write_text('{"state": "running", "step": 100, "steps": 200}')

    def write_dynamics(run):
        (run / "dynamics.jsonl").write_text('{"step": 1, "residual_rms": {"layer 0": 1.0}}\n')

    write_dynamics(folder / "pre-100-1")
    with Server(Pages(folder), 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        open_page(browser, server.address)
        browser.click("#tab-runs")
        browser.click("#runs input")
        browser.call("Input.insertText", text="pre-0")
        assert "running" in browser.run("document.querySelector('#runs tbody').textContent")
        (folder / "pre-0-2" / "status.json").write_text('{"state": "done", "step": 200, "steps": 200}')
        browser.until("!document.querySelector('#runs tbody').textContent.includes('running')")
        # The chosen tab and the typed filter are kept.
        assert panels(browser) == ["runs"]
        assert texts(browser, "#runs .tools span") == ["3 of 12 rows"]
        assert browser.run("document.activeElement.type") == "search"
        # The heat map stays on its run, although another run now precedes it.
        browser.click("#tab-dynamics")
        assert texts(browser, "#dynamics h3") == ["norm=pre+warm-up=100, seed 1"]
        write_dynamics(folder / "pre-0-0")
        browser.until("document.querySelectorAll('#dynamics-runs select')[0].length === 2")
        assert texts(browser, "#dynamics h3") == ["norm=pre+warm-up=100, seed 1"]
        server.shutdown()
        thread.join()
    browser.until("document.getElementById('live').textContent === 'disconnected'")
    assert browser.run("[...document.querySelectorAll('#runs section:first-child tbody tr')].length") == 12


def test_the_address_restores_the_view(page):
    page.click("#tab-curves")
    page.click("#curves-x button", 1)
    choose(page, "curves-metric", 1)
    choose(page, "curves-beside", 2)
    choose(page, "curves-band", "interval")
    page.click("#curves-log-y")
    page.click(LEGEND)
    page.run("document.querySelector('#curves-plot .picture').focus()")
    page.key("+")
    page.run("document.querySelector('#curves .arm-filter input').focus()")
    page.call("Input.insertText", text="norm=pre")
    assert texts(page, LEGEND + " span") == ["pre, 0", "pre, 100"]
    words = texts(page, "#curves-plot text")
    assert page.run("document.querySelectorAll('#curves .beside svg').length") > 0
    address = page.run("location.href")
    open_page(page, "about:blank")
    page.open(address)
    assert page.run("location.href") == address
    assert panels(page) == ["curves"]
    assert texts(page, "#curves-plot text") == words
    assert page.run("document.querySelectorAll('#curves .beside svg').length") > 0
    assert page.run("document.querySelector('.legend button').getAttribute('aria-pressed')") == "false"
    # The filter also acts on the tables of arms.
    page.click("#tab-runs")
    assert texts(page, "#runs .tools span") == ["6 of 12 rows"]
    page.requests.clear()
    page.open(address.partition("#")[0])


def test_any_arm_is_the_baseline(page):
    def shown(tab):
        captions = (
            "[...document.querySelectorAll('caption')].filter((it) => it.offsetParent).map((it) => it.textContent)"
        )
        page.click(f"#tab-{tab}")
        return [text for text in page.run(captions) if "minus that of" in text]

    assert shown("overview") == ["Final eval/loss, nats minus that of norm=pre+warm-up=0"]
    page.run("document.querySelector('select.baseline').value = '2'")
    page.run("document.querySelector('select.baseline').dispatchEvent(new Event('change'))")
    for tab in ("overview", "differences"):
        assert shown(tab) == ["Final eval/loss, nats minus that of norm=post+warm-up=0"]
    # Pre-norm is about 1 nat lower than post-norm without warm-up.
    row = "[...document.querySelectorAll('#differences [data-baseline=\"2\"] tbody tr:first-child .number')]"
    assert page.run(f"{row}[0].dataset.csv") == str(page.run(f"[{row}[0].dataset.csv].map(JSON.parse)[0]")).replace(
        " ", ""
    )
    assert page.run(f"JSON.parse({row}[0].dataset.csv)[0]") == pytest.approx(-1.0, abs=0.02)
    assert {"pre, 0", "pre, 100", "post, 100"} <= set(texts(page, "#differences-plot text"))
    address = page.run("location.href")
    open_page(page, address)
    assert shown("differences") == ["Final eval/loss, nats minus that of norm=post+warm-up=0"]
    page.requests.clear()
    page.open(address.partition("#")[0])


def test_a_run_leads_to_its_command_in_the_page(page):
    page.click("#tab-runs")
    page.click("#runs tbody a", 1)
    page.until("!document.getElementById('reproduce').hidden")
    assert panels(page) == ["reproduce"]
    target = page.run("[...document.querySelectorAll('#reproduce [id^=run-]')].map((it) => it.textContent)")
    assert "pre-0-1" in target
    page.run("history.replaceState(null, '', location.pathname)")


def test_wide_screens_are_used_and_narrow_ones_scroll_inside_tables(page):
    def width(selector):
        return page.run(f"document.querySelector({selector!r}).getBoundingClientRect().width")

    page.resize(2000, 900)
    page.click("#tab-curves")
    page.until("document.querySelector('#curves-plot svg').getBoundingClientRect().width > 1800")
    page.click("#tab-overview")
    # The answer and the curves stand side by side.
    tops = "['.verdict', '#overview-plot'].map((it) => document.querySelector(it).getBoundingClientRect().left)"
    left, right = page.run(tops)
    assert right - left > 800
    page.resize(400, 900)
    page.click("#tab-differences")
    assert page.run("document.querySelector('#differences .scroll').scrollWidth") > 400
    heights = (
        "[...document.querySelectorAll('#differences [data-baseline=\"0\"] tbody tr')].map((row) => row.offsetHeight)"
    )
    assert max(page.run(heights)) < 90
    assert width("#differences-plot svg") < 400


def test_all_tabs_are_printed_with_their_figures(page):
    page.run("window.dispatchEvent(new Event('beforeprint'))")
    drawn = (
        "[...document.querySelectorAll('.plot')].filter((plot) => !plot.querySelector('svg')).map((plot) => plot.id)"
    )
    assert page.run(drawn) == []
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    assert len(panels(page)) == 9
    # As wide as the paper, and no table is wider.
    page.resize(1030, 900)
    assert page.run("document.documentElement.scrollWidth") <= 1030
    page.call("Emulation.setEmulatedMedia", media="")
    page.run("window.dispatchEvent(new Event('afterprint'))")
    assert panels(page) == ["overview"]
