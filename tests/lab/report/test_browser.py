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

pytestmark = [pytest.mark.promise, pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")]

LINES = "document.querySelectorAll('#curves-plot [data-line]').length"
LEGEND = "#curves .legend button"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def shown(browser, writer):
    """A page of a sweep in which everything occurs, opened; at the end nothing may have gone wrong
    or left the page.
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


def test_tabs_by_keys_and_clicks(shown):
    names = ["overview", "curves", "differences", "factors", "dynamics", "runs", "configs", "samples", "reproduce"]
    assert panels(shown) == ["overview"]
    shown.run("document.querySelector('[role=tab]').focus()")
    seen = []
    for key in ("ArrowRight", "ArrowRight", "End", "ArrowRight", "ArrowLeft", "Home"):
        shown.key(key)
        assert shown.run("document.activeElement.getAttribute('aria-selected')") == "true"
        assert shown.run("document.querySelectorAll('[role=tab][tabindex=\"0\"]').length") == 1
        seen += panels(shown)
    assert seen == ["curves", "differences", "reproduce", "overview", "reproduce", "overview"]
    assert shown.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for name in names:
        shown.click(f"#tab-{name}")
        assert panels(shown) == [name]
        assert shown.run("location.hash") == f"#{name}"
        assert shown.run(f"[...document.querySelectorAll('#{name} .plot')].every((plot) => plot.querySelector('svg'))")
    shown.key("Tab")
    assert shown.run("document.activeElement.closest('[role=tabpanel]').id") == "reproduce"


def test_where_the_vertical_axis_ends(browser, writer):
    folder = writer.sweep(broken=True)
    for path in folder.glob("*/metrics.jsonl"):
        path.write_text(path.read_text().replace('"eval/bits_per_byte": ', '"eval/accuracy": '))
    open_page(browser, write_page(load_sweep(folder), folder / "report.html").as_uri())

    def top():
        # Updates are marked from 20 on.
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
    # What should rise, here 0.4 of the same values, is shown to its end.
    metrics = texts(browser, "#curves-metric option")
    choose(browser, "curves-metric", metrics.index("eval/accuracy"))
    assert not cut("curves")
    assert top() > 2.4
    # Of differences the better ones lie below zero, and no axis of theirs is logarithmic.
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
    # Every line is named at its end, in order of its height; the axis begins at 0.
    assert {"pre, 0", "post, 100", "0", "200"} <= set(texts(browser, "#curves-plot text"))
    assert texts(browser, "#curves .legend .title") == ["norm, warm-up:"]
    browser.click("#curves-log-x")
    assert not [text for text in texts(browser, "#curves-plot text") if "not shown" in text]


def test_the_address_holds_what_is_shown(shown):
    shown.click("#tab-curves")
    shown.click("#curves-x button", 1)
    choose(shown, "curves-metric", 1)
    choose(shown, "curves-beside", 2)
    choose(shown, "curves-band", "interval")
    shown.click("#curves-log-y")
    shown.click(LEGEND)
    shown.run("document.querySelector('#curves-plot .picture').focus()")
    shown.key("+")
    shown.run("document.querySelector('#curves .arm-filter input').focus()")
    shown.call("Input.insertText", text="norm=pre")
    assert texts(shown, LEGEND + " span") == ["pre, 0", "pre, 100"]
    words = texts(shown, "#curves-plot text")
    assert shown.run("document.querySelectorAll('#curves .beside svg').length") > 0
    address = shown.run("location.href")
    open_page(shown, "about:blank")
    shown.open(address)
    assert shown.run("location.href") == address
    assert panels(shown) == ["curves"]
    assert texts(shown, "#curves-plot text") == words
    assert shown.run("document.querySelectorAll('#curves .beside svg').length") > 0
    assert shown.run("document.querySelector('.legend button').getAttribute('aria-pressed')") == "false"
    # The filter also acts on the tables of arms.
    shown.click("#tab-runs")
    assert texts(shown, "#runs .tools span") == ["6 of 12 rows"]
    shown.requests.clear()
    shown.open(address.partition("#")[0])


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("/^norm=p.*100$/", ["pre, 100", "post, 100"]),
        ("warmup_steps=0", ["pre, 0", "post, 0"]),
        ("warm-up=100 post", ["post, 100"]),
        ("/(/", ["pre, 0", "pre, 100", "post, 0", "post, 100"]),
    ],
)
def test_arms_are_filtered(shown, written, left):
    shown.run("document.querySelector('#overview .arm-filter input').focus()")
    shown.call("Input.insertText", text=written)
    assert texts(shown, "#overview .legend button span") == left
    assert set(texts(shown, "#overview-plot [data-end]")) == set(left)
    assert ("not a regular expression" in texts(shown, "#overview .arm-filter span")) == (written == "/(/")


def test_arrows_go_from_point_to_point(shown):
    shown.click("#tab-curves")
    shown.run("document.querySelector('#curves-plot .picture').focus()")
    said = []
    for _ in range(11):
        shown.key("ArrowRight")
        said.append(shown.run("document.querySelector('#curves-plot .unseen').textContent"))
    # The runs are evaluated every 20 of 200 updates.
    assert [text.split(" ")[0] for text in said] == [str(step) for step in range(0, 201, 20)]
    assert len(set(said)) == 11
    shown.key("ArrowRight")
    assert shown.run("document.querySelector('#curves-plot .unseen').textContent") == said[-1]
    assert "2.521 norm=pre, warm-up=0 2.494 to 2.548, n = 3" in " ".join(said[-1].split())
    assert "post, warm-up=0" not in said[-1]
    shown.click("#tab-differences")
    shown.run("document.querySelector('#differences-plot .picture').focus()")
    shown.key("ArrowRight")
    shown.key("ArrowRight")
    assert shown.run("document.querySelector('#differences-plot .unseen').textContent").startswith(
        "norm=post, warm-up=0: 1.0"
    )


def test_a_far_arm_does_not_flatten_the_differences(shown):
    shown.click("#tab-differences")
    # Post-norm without warm-up is 1 nat worse; the others differ by a few hundredths.
    drawn = texts(shown, "#differences-plot text")
    assert any("the axis is cut" in text for text in drawn)
    assert {"pre, 100", "post, 0", "post, 100", "mean", "95 % interval"} <= set(drawn)
    assert "1" not in drawn
    shown.click("#tab-factors")
    colours = shown.run(
        "[...document.querySelectorAll('#effects-plot [stroke-width=\"2.6\"]')].map((line) => line.getAttribute('stroke'))"
    )
    assert set(colours) <= {"#1b2027"}


def test_curves_over_every_axis(shown):
    shown.click("#tab-curves")
    lines = shown.run(LINES)
    assert lines > 4
    for nth, title in enumerate(("updates", "tokens", "training FLOPs", "seconds of training")):
        shown.click("#curves-x button", nth)
        assert title in texts(shown, "#curves-plot text")
        assert shown.run(LINES) == lines
    shown.click("#curves-x button", 2)
    # 200 updates of 1,024 tokens at 7.4 MFLOP each: 1.5 TFLOP.
    assert "1.4 T" in texts(shown, "#curves-plot text") or "1.5 T" in texts(shown, "#curves-plot text")
    for box in ("curves-log-x", "curves-log-y", "curves-late"):
        shown.click(f"#{box}")
        assert shown.run(f"{LINES} > 0 && !document.querySelector('#curves-plot').innerHTML.includes('NaN')")
        shown.click(f"#{box}")
    shown.click("#curves-seeds")
    assert shown.run(LINES) < lines
    assert len(texts(shown, "#curves-plot path title")) == 2
    shown.click(LEGEND)
    assert shown.run("document.querySelector('.legend button').getAttribute('aria-pressed')") == "false"
    assert shown.run(LINES) < lines


def test_smoothing_is_drawn_over_the_raw_line_and_spikes_are_marked(shown):
    shown.click("#tab-curves")
    choose(shown, "curves-metric", 1)
    choose(shown, "curves-window", 10)
    faint = "document.querySelectorAll('#curves-plot [data-line][opacity]').length"
    assert shown.run(faint) == 11
    assert any("loss spike at step 100 (7.3 SD)" in text for text in texts(shown, "#curves-plot title"))
    rough = "document.querySelector('#curves-plot [data-line]:not([opacity])').getAttribute('d')"
    smooth = shown.run(rough)
    choose(shown, "curves-window", 0)
    assert shown.run(rough) != smooth


def test_difference_to_an_arm(shown):
    shown.click("#tab-curves")
    choose(shown, "curves-minus", 0)
    assert any(text.startswith("difference in eval/loss") for text in texts(shown, "#curves-plot text"))
    shown.run("document.querySelector('#curves-plot .picture').focus()")
    shown.key("ArrowLeft")
    told = shown.run("document.querySelector('#curves-plot .tip').innerText")
    # The arm minus itself, and pre-norm with warm-up, whose two seeds end 0.047 lower.
    assert "0 norm=pre, warm-up=0" in " ".join(told.split())
    assert "−0.047 norm=pre, warm-up=100" in " ".join(told.split())


def test_reading_and_enlarging(shown):
    shown.click("#tab-curves")
    left, top, wide = shown.run(
        "(() => { const r = document.querySelector('#curves-plot .picture').getBoundingClientRect();"
        "return [r.x, r.y, r.width]; })()"
    )
    shown.mouse("mouseMoved", left + wide / 2, top + 200, buttons=0)
    assert shown.run("!document.querySelector('#curves-plot .tip').hidden")
    assert "norm=pre, warm-up=0" in shown.run("document.querySelector('#curves-plot .tip').innerText")
    before = texts(shown, "#curves-plot text")
    shown.mouse("mousePressed", left + wide / 2, top + 200)
    shown.mouse("mouseMoved", left + wide / 2 + 200, top + 203)
    shown.mouse("mouseReleased", left + wide / 2 + 200, top + 203)
    assert texts(shown, "#curves-plot text") != before
    assert shown.run("!document.querySelector('#curves-plot .tools button').hidden")
    shown.key("Escape")
    shown.run("document.querySelector('#curves-plot .picture').focus()")
    shown.key("Escape")
    assert texts(shown, "#curves-plot text") == before


def test_figures_are_saved(shown):
    shown.scheme("dark")
    shown.click("#tab-curves")
    shown.click("#curves-plot .tools button", 1)
    picture = ElementTree.parse(shown.downloaded("eval-loss.svg"))
    names = [node.text for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"eval/loss", "updates", "norm, warm-up:", "pre, 0", "post, 100"} <= set(names)
    # On white, whatever the page looks like.
    assert next(picture.iter("{http://www.w3.org/2000/svg}rect")).get("fill") == "#ffffff"
    shown.click("#curves-plot .tools button", 0)
    assert shown.downloaded("eval-loss.png").read_bytes().startswith(b"\x89PNG")


def test_tables_are_sorted_filtered_and_saved(shown):
    shown.click("#tab-runs")
    column = "[...document.querySelectorAll('#runs tbody tr')].filter((row) => !row.hidden).map((row) => row.cells[4].textContent)"
    shown.click("#runs th .sort", 4)
    values = [text for text in shown.run(column) if text != "–"]
    assert values == sorted(values)
    assert shown.run(column)[-3:] == ["–", "–", "–"]
    shown.run("document.querySelectorAll('#runs th .sort')[4].focus()")
    shown.key("Enter")
    shown.run("document.activeElement.click()")
    assert [text for text in shown.run(column) if text != "–"] == values[::-1]
    assert shown.run("document.querySelectorAll('#runs th')[4].getAttribute('aria-sort')") == "descending"
    shown.click("#runs input")
    shown.call("Input.insertText", text="post DONE")
    assert "4 of 12 rows" in texts(shown, "#runs .tools span")
    for nth in range(3):
        shown.click("#runs .tools button", nth)
    rows = list(csv.reader(shown.downloaded("runs.csv").open(newline="")))
    assert rows[0][:4] == ["run", "arm", "seed", "state"]
    assert len(rows) == 5
    assert rows[1][1] == "norm=post, warm-up=0"
    markdown = shown.downloaded("runs.md").read_text().splitlines()
    assert len(markdown) == 6
    assert markdown[1].startswith("|---|---|---:|")
    latex = shown.downloaded("runs.tex").read_text()
    row = "post-0-0 & norm=post, warm-up=0 & 0 & done &"
    assert all(part in latex for part in ("\\toprule", "\\midrule", "\\bottomrule", "{llrlrrrrrrrl}", row))


def test_heat_maps(shown):
    shown.click("#tab-dynamics")
    assert {"layer 0", "layer 2"} <= set(texts(shown, "#dynamics text"))
    area = shown.run(
        "(() => { const r = document.querySelector('#dynamics image').getBoundingClientRect();"
        "return [r.x, r.y, r.width, r.height]; })()"
    )
    shown.mouse("mouseMoved", area[0] + area[2] - 5, area[1] + area[3] - 5, buttons=0)
    assert shown.run("document.querySelector('#dynamics .tip').innerText") == "layer 2, update 190: 190.3"
    shown.click("#dynamics-statistic button", 1)
    assert texts(shown, "#dynamics-statistic [aria-pressed=true]") == ["logit scale"]
    assert "head" in texts(shown, "#dynamics text")


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
    # Its axis is that of a picture, which is not enlarged.
    before = browser.run(ticks)
    browser.run("document.querySelector('#dynamics .picture').focus()")
    browser.key("+")
    assert browser.run(ticks) == before


def test_colours_follow_the_system_and_the_choice(shown):
    paper = "getComputedStyle(document.body).backgroundColor"
    light = shown.run(paper)
    shown.scheme("dark")
    dark = shown.run(paper)
    assert light != dark
    shown.click("#theme")
    assert shown.run(paper) == light
    shown.click("#theme")
    shown.scheme("light")
    assert shown.run(paper) == dark
    shown.until("document.querySelector('#overview-plot text').getAttribute('fill') === '#a0abb8'")
    shown.click("#theme")


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_is_wider_than_the_screen(shown, width):
    shown.resize(width, 800)
    for name in shown.run("[...document.querySelectorAll('[role=tabpanel]')].map((panel) => panel.id)"):
        shown.run(f"document.getElementById('tab-{name}').click()")
        assert shown.run("document.documentElement.scrollWidth") <= width, name


def test_lines_do_not_break_at_the_hyphens_of_names(shown):
    lines = "[...document.querySelectorAll('.verdict .short, th .short')].map((word) => word.getClientRects().length)"
    for width in range(360, 460, 10):
        shown.resize(width, 800)
        assert max(shown.run(lines)) == 1, width
    assert {"warm-up=100", "warm-up"} <= set(texts(shown, ".verdict .short, th .short"))


def test_without_scripts_everything_is_there(browser, writer):
    folder = writer.sweep()
    page = write_page(load_sweep(folder), folder / "report.html")
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        open_page(browser, page.as_uri())
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


def test_what_begins_like_a_number_is_no_formula(browser, writer, tmp_path):
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


def test_a_page_that_is_followed(browser, writer):
    folder = writer.sweep()
    (folder / "pre-0-2" / "status.json").write_text('{"state": "running", "step": 100, "steps": 200}')

    def recorded(run):
        (run / "dynamics.jsonl").write_text('{"step": 1, "residual_rms": {"layer 0": 1.0}}\n')

    recorded(folder / "pre-100-1")
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
        # What was chosen and typed is still there.
        assert panels(browser) == ["runs"]
        assert texts(browser, "#runs .tools span") == ["3 of 12 rows"]
        assert browser.run("document.activeElement.type") == "search"
        # So is what is shown of the layers, although another run comes before it now.
        browser.click("#tab-dynamics")
        assert texts(browser, "#dynamics h3") == ["norm=pre, warm-up=100, seed 1"]
        recorded(folder / "pre-0-0")
        browser.until("document.querySelectorAll('#dynamics-runs select')[0].length === 2")
        assert texts(browser, "#dynamics h3") == ["norm=pre, warm-up=100, seed 1"]
        server.shutdown()
        thread.join()
    browser.until("document.getElementById('live').textContent === 'disconnected'")
    assert browser.run("[...document.querySelectorAll('#runs tbody tr')].length") == 12
