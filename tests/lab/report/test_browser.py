"""The page in a real browser: it draws, its controls act on clicks and keys, it saves what it
shows, and nothing hostile runs.
"""

import csv
import json
import threading
import xml.etree.ElementTree as ElementTree

import pytest

from tests.lab.report.lab_reports import write_page
from tests.support.chromium import PROGRAM, Browser
from zoo.lab.report.server import Pages, Server
from zoo.lab.results.comparison import load_comparison
from zoo.lab.results.sweep_results import load_any, load_sweep

pytestmark = [
    pytest.mark.promise(reason="pages are opened in a browser"),
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine"),
]

LINES = "document.querySelectorAll('#curves-plot [data-line]').length"
LEGEND = "#curves .legend button"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def page(browser, writer):
    """Opens the page of a sweep with every kind of content; at the end there must be no errors and no
    requests to other addresses.
    """
    folder = writer.sweep(broken=True, lengths=True)
    with open(folder / "pre-0-0" / "dynamics.jsonl", "w") as file:
        for step in range(0, 200, 10):
            rows = {f"layer {layer}": 0.1 * (layer + 1) + step for layer in range(3)}
            print(
                json.dumps({"step": step, "residual_rms": rows, "logit_scale": {"head": None if step else 2.0}}),
                file=file,
            )
        print(json.dumps({"step": 100, "spikes": {"loss": 7.25}}), file=file)
    (folder / "pre-0-0" / "samples.jsonl").write_text('{"prompt": "a", "text": "<b>b</b>"}\n')
    address = write_page(load_sweep(folder), folder / "report.html").as_uri()
    open_page(browser, address)
    yield browser
    assert browser.problems == []
    assert {
        request.partition("#")[0] for request in browser.requests if not request.startswith(("data:", "blob:"))
    } == {address}


def open_page(browser, address, width=1280):
    browser.resize(width, 900)
    browser.scheme("light")
    browser.open("about:blank")
    browser.problems.clear()
    browser.requests.clear()
    browser.open(address)


def choose(browser, field, value):
    browser.run(
        f"(() => {{ const field = document.getElementById('{field}'); field.value = '{value}';"
        "field.dispatchEvent(new Event('change')); })()"
    )


def panels(browser):
    return browser.run(
        "[...document.querySelectorAll('[role=tabpanel]')].filter((panel) => panel.offsetParent).map((panel) => panel.id)"
    )


def texts(browser, selector):
    return browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((found) => found.textContent)")


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


def test_the_vertical_axis_cuts_off_diverging_losses_only(browser, writer):
    folder = writer.sweep(broken=True)
    for path in folder.glob("*/metrics.jsonl"):
        path.write_text(path.read_text().replace('"eval/bits_per_byte": ', '"eval/accuracy": '))
    open_page(browser, write_page(load_sweep(folder), folder / "report.html").as_uri())

    def top():
        # Labels of the horizontal axis begin at 20.
        return max(
            float(text)
            for text in texts(browser, "#curves-plot text")
            if text.replace(".", "").isdecimal() and float(text) < 20
        )

    def cut(chart):
        return [text for text in texts(browser, f"#{chart}-plot text") if "not shown" in text]

    # One run ends at five times its loss, and all begin at 6, from where they fall fast.
    assert cut("overview")
    browser.click("#tab-curves")
    assert cut("curves") == ["↑ values above 6.2 are not shown"]
    assert top() <= 6
    browser.click("#curves-whole")
    assert not cut("curves")
    assert top() > 10
    browser.click("#curves-whole")
    # A metric that should rise, here 0.4 times the losses, is shown in full.
    metrics = texts(browser, "#curves-metric option")
    choose(browser, "curves-metric", metrics.index("eval/accuracy"))
    assert not cut("curves")
    assert top() > 2.4
    # Differences can be negative, so their axis is never logarithmic.
    choose(browser, "curves-metric", metrics.index("eval/loss"))
    choose(browser, "curves-minus", 0)
    browser.click("#curves-late")
    before = texts(browser, "#curves-plot text")
    browser.click("#curves-log-y")
    assert texts(browser, "#curves-plot text") == before
    assert "0" in before
    assert browser.problems == []


def test_the_steep_start_of_a_loss_does_not_flatten_the_rest(browser, writer):
    folder = writer.sweep()
    for path in folder.glob("*/metrics.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        rows = [{**row, "eval/loss": 2 + 8 * (row["step"] == 0) - row["step"] / 1000} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    open_page(browser, write_page(load_sweep(folder), folder / "report.html").as_uri() + "#curves")
    assert "↑ values above 2 are not shown" in texts(browser, "#curves-plot text")
    # Every line is labelled at its end, and the horizontal axis begins at 0.
    assert {"pre, 0", "post, 100", "0", "200"} <= set(texts(browser, "#curves-plot text"))
    assert texts(browser, "#curves .legend .title") == ["norm, warm-up:"]
    browser.click("#curves-log-x")
    assert not [text for text in texts(browser, "#curves-plot text") if "not shown" in text]


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


@pytest.mark.parametrize(
    ("query", "remaining"),
    [
        ("/^norm=p.*100$/", ["pre, 100", "post, 100"]),
        ("warmup_steps=0", ["pre, 0", "post, 0"]),
        ("warm-up=100 post", ["post, 100"]),
        ("/(/", ["pre, 0", "pre, 100", "post, 0", "post, 100"]),
    ],
)
def test_arms_are_filtered(page, query, remaining):
    page.run("document.querySelector('#overview .arm-filter input').focus()")
    page.call("Input.insertText", text=query)
    assert texts(page, "#overview .legend button span") == remaining
    assert set(texts(page, "#overview-plot [data-end]")) == set(remaining)
    assert ("not a regular expression" in texts(page, "#overview .arm-filter span")) == (query == "/(/")


def test_arrow_keys_move_between_points(page):
    page.click("#tab-curves")
    page.run("document.querySelector('#curves-plot .picture').focus()")
    announced = []
    for _ in range(11):
        page.key("ArrowRight")
        announced.append(page.run("document.querySelector('#curves-plot .unseen').textContent"))
    # The runs are evaluated every 20 of 200 updates.
    assert [text.split(" ")[0] for text in announced] == [str(step) for step in range(0, 201, 20)]
    assert len(set(announced)) == 11
    page.key("ArrowRight")
    assert page.run("document.querySelector('#curves-plot .unseen').textContent") == announced[-1]
    assert "2.521 norm=pre, warm-up=0 2.494 to 2.548, n = 3" in " ".join(announced[-1].split())
    assert "post, warm-up=0" not in announced[-1]
    page.click("#tab-differences")
    page.run("document.querySelector('#differences-plot .picture').focus()")
    page.key("ArrowRight")
    page.key("ArrowRight")
    assert page.run("document.querySelector('#differences-plot .unseen').textContent").startswith(
        "norm=post, warm-up=0: 1.0"
    )


def test_an_outlying_arm_does_not_flatten_the_differences(page):
    page.click("#tab-differences")
    # Post-norm without warm-up is 1 nat worse; the others differ by a few hundredths.
    drawn = texts(page, "#differences-plot text")
    assert any("the axis is cut" in text for text in drawn)
    assert {"pre, 100", "post, 0", "post, 100", "mean", "95 % interval"} <= set(drawn)
    assert "1" not in drawn
    page.click("#tab-factors")
    colours = page.run(
        "[...document.querySelectorAll('#effects-plot [stroke-width=\"2.6\"]')].map((line) => line.getAttribute('stroke'))"
    )
    assert set(colours) <= {"#1b2027"}


def test_curves_over_every_axis(page):
    page.click("#tab-curves")
    lines = page.run(LINES)
    assert lines > 4
    for nth, title in enumerate(("updates", "tokens", "training FLOPs", "seconds of training")):
        page.click("#curves-x button", nth)
        assert title in texts(page, "#curves-plot text")
        assert page.run(LINES) == lines
    page.click("#curves-x button", 2)
    # 200 updates of 1,024 tokens at 7.4 MFLOP each: 1.5 TFLOP.
    assert "1.4 T" in texts(page, "#curves-plot text") or "1.5 T" in texts(page, "#curves-plot text")
    for box in ("curves-log-x", "curves-log-y", "curves-late"):
        page.click(f"#{box}")
        assert page.run(f"{LINES} > 0 && !document.querySelector('#curves-plot').innerHTML.includes('NaN')")
        page.click(f"#{box}")
    page.click("#curves-seeds")
    assert page.run(LINES) < lines
    assert len(texts(page, "#curves-plot path title")) == 2
    page.click(LEGEND)
    assert page.run("document.querySelector('.legend button').getAttribute('aria-pressed')") == "false"
    assert page.run(LINES) < lines


def test_smoothing_is_drawn_over_the_raw_line_and_spikes_are_marked(page):
    page.click("#tab-curves")
    choose(page, "curves-metric", 1)
    choose(page, "curves-window", 10)
    faint = "document.querySelectorAll('#curves-plot [data-line][opacity]').length"
    assert page.run(faint) == 11
    assert any("loss spike at step 100 (7.3 SD)" in text for text in texts(page, "#curves-plot title"))
    rough = "document.querySelector('#curves-plot [data-line]:not([opacity])').getAttribute('d')"
    smooth = page.run(rough)
    choose(page, "curves-window", 0)
    assert page.run(rough) != smooth


def test_difference_to_an_arm(page):
    page.click("#tab-curves")
    choose(page, "curves-minus", 0)
    assert any(text.startswith("difference in eval/loss") for text in texts(page, "#curves-plot text"))
    page.run("document.querySelector('#curves-plot .picture').focus()")
    page.key("ArrowLeft")
    tooltip = page.run("document.querySelector('#curves-plot .tip').innerText")
    # The differences of the arm from itself and of pre-norm with warm-up, which ends 0.047 lower.
    assert "0 norm=pre, warm-up=0" in " ".join(tooltip.split())
    assert "−0.047 norm=pre, warm-up=100" in " ".join(tooltip.split())


def test_tooltip_and_zoom(page):
    page.click("#tab-curves")
    left, top, wide = page.run(
        "(() => { const r = document.querySelector('#curves-plot .picture').getBoundingClientRect();"
        "return [r.x, r.y, r.width]; })()"
    )
    page.mouse("mouseMoved", left + wide / 2, top + 200, buttons=0)
    assert page.run("!document.querySelector('#curves-plot .tip').hidden")
    assert "norm=pre, warm-up=0" in page.run("document.querySelector('#curves-plot .tip').innerText")
    before = texts(page, "#curves-plot text")
    page.mouse("mousePressed", left + wide / 2, top + 200)
    page.mouse("mouseMoved", left + wide / 2 + 200, top + 203)
    page.mouse("mouseReleased", left + wide / 2 + 200, top + 203)
    assert texts(page, "#curves-plot text") != before
    assert page.run("!document.querySelector('#curves-plot .tools button').hidden")
    page.key("Escape")
    page.run("document.querySelector('#curves-plot .picture').focus()")
    page.key("Escape")
    assert texts(page, "#curves-plot text") == before


def test_figures_are_saved(page):
    page.scheme("dark")
    page.click("#tab-curves")
    page.click("#curves-plot .tools button", 1)
    picture = ElementTree.parse(page.downloaded("eval-loss.svg"))
    names = [node.text for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"eval/loss", "updates", "norm, warm-up:", "pre, 0", "post, 100"} <= set(names)
    # A saved figure is white even in dark mode.
    assert next(picture.iter("{http://www.w3.org/2000/svg}rect")).get("fill") == "#ffffff"
    page.click("#curves-plot .tools button", 0)
    assert page.downloaded("eval-loss.png").read_bytes().startswith(b"\x89PNG")


def test_tables_are_sorted_filtered_and_saved(page):
    page.click("#tab-runs")
    column = "[...document.querySelectorAll('#runs tbody tr')].filter((row) => !row.hidden).map((row) => row.cells[4].textContent)"
    page.click("#runs th .sort", 4)
    values = [text for text in page.run(column) if text != "–"]
    assert values == sorted(values)
    assert page.run(column)[-3:] == ["–", "–", "–"]
    page.run("document.querySelectorAll('#runs th .sort')[4].focus()")
    page.key("Enter")
    page.run("document.activeElement.click()")
    assert [text for text in page.run(column) if text != "–"] == values[::-1]
    assert page.run("document.querySelectorAll('#runs th')[4].getAttribute('aria-sort')") == "descending"
    page.click("#runs input")
    page.call("Input.insertText", text="post DONE")
    assert "4 of 12 rows" in texts(page, "#runs .tools span")
    for nth in range(3):
        page.click("#runs .tools button", nth)
    rows = list(csv.reader(page.downloaded("runs.csv").open(newline="")))
    assert rows[0][:4] == ["run", "arm", "seed", "state"]
    assert len(rows) == 5
    assert rows[1][1] == "norm=post, warm-up=0"
    markdown = page.downloaded("runs.md").read_text().splitlines()
    assert len(markdown) == 6
    assert markdown[1].startswith("|---|---|---:|")
    latex = page.downloaded("runs.tex").read_text()
    row = "post-0-0 & norm=post, warm-up=0 & 0 & done &"
    assert all(part in latex for part in ("\\toprule", "\\midrule", "\\bottomrule", "{llrlrrrrrrrl}", row))


def test_heat_maps(page):
    page.click("#tab-dynamics")
    assert {"layer 0", "layer 2"} <= set(texts(page, "#dynamics text"))
    area = page.run(
        "(() => { const r = document.querySelector('#dynamics image').getBoundingClientRect();"
        "return [r.x, r.y, r.width, r.height]; })()"
    )
    page.mouse("mouseMoved", area[0] + area[2] - 5, area[1] + area[3] - 5, buttons=0)
    assert page.run("document.querySelector('#dynamics .tip').innerText") == "layer 2, update 190: 190.3"
    page.click("#dynamics-statistic button", 1)
    assert texts(page, "#dynamics-statistic [aria-pressed=true]") == ["logit scale"]
    assert "head" in texts(page, "#dynamics text")


def test_heat_maps_of_values_around_zero(browser, writer):
    folder = writer.run("alone", steps=20)
    # Of 200 values one is a rounding error below zero: less than one in a hundred, so that the
    # scale is logarithmic.
    rows = [{f"layer {layer}": 10.0 ** (layer % 4) for layer in range(20)} for _ in range(10)]
    rows[3]["layer 7"] = -1e-8
    (folder / "dynamics.jsonl").write_text(
        "".join(json.dumps({"step": step, "attention_entropy": row}) + "\n" for step, row in enumerate(rows, 1))
    )
    open_page(browser, write_page(load_any(folder), folder / "report.html").as_uri())
    browser.click("#tab-dynamics")
    assert browser.problems == []
    ticks = "[...document.querySelectorAll('#dynamics svg text')].map((text) => text.textContent)"
    # Halfway between 1 and 1000 of a logarithmic scale.
    assert any(text.startswith("31.") for text in browser.run(ticks))
    # Heat maps cannot be zoomed.
    before = browser.run(ticks)
    browser.run("document.querySelector('#dynamics .picture').focus()")
    browser.key("+")
    assert browser.run(ticks) == before


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


@pytest.mark.parametrize("width", [360, 768])
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


def test_saved_cells_are_not_formulas_of_spreadsheets(browser, writer, tmp_path):
    reason = "-2+3+cmd|' /C calc'!A0"
    runs = [writer.run("plain"), writer.run("other", state="failed", stop=60, reason=reason)]
    open_page(browser, write_page(load_comparison(runs), tmp_path / "page.html").as_uri())
    for saved in browser.downloads.iterdir():
        saved.unlink()
    browser.click("#tab-runs")
    browser.click("#runs .tools button", 0)
    cells = [cell for row in csv.reader(browser.downloaded("runs.csv").open(newline="")) for cell in row]
    assert "'" + reason in cells
    assert reason not in cells


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
        assert texts(browser, "#dynamics h3") == ["norm=pre, warm-up=100, seed 1"]
        write_dynamics(folder / "pre-0-0")
        browser.until("document.querySelectorAll('#dynamics-runs select')[0].length === 2")
        assert texts(browser, "#dynamics h3") == ["norm=pre, warm-up=100, seed 1"]
        server.shutdown()
        thread.join()
    browser.until("document.getElementById('live').textContent === 'disconnected'")
    assert browser.run("[...document.querySelectorAll('#runs tbody tr')].length") == 12
