"""Learning curves in a real browser: axes, cuts, differences, smoothing, reading, zooming, filters."""

import json

import pytest

from tests.lab.report.browser.pages import LEGEND, LINES, choose, in_a_browser, open_page, texts
from tests.lab.report.lab_reports import write_page
from zoo.lab.results.sweep_results import load_sweep

pytestmark = in_a_browser


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
    assert "2.521 norm=pre+warm-up=0 2.494 to 2.548, n = 3" in " ".join(announced[-1].split())
    assert "post+warm-up=0" not in announced[-1]
    page.click("#tab-differences")
    page.run("document.querySelector('#differences-plot .picture').focus()")
    page.key("ArrowRight")
    page.key("ArrowRight")
    assert page.run("document.querySelector('#differences-plot .unseen').textContent").startswith(
        "norm=post+warm-up=0: 1.00 ("
    )


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
    assert "0 norm=pre+warm-up=0" in " ".join(tooltip.split())
    assert "−0.047 norm=pre+warm-up=100" in " ".join(tooltip.split())


def test_tooltip_and_zoom(page):
    page.click("#tab-curves")
    left, top, wide = page.run(
        "(() => { const r = document.querySelector('#curves-plot .picture').getBoundingClientRect();"
        "return [r.x, r.y, r.width]; })()"
    )
    page.mouse("mouseMoved", left + wide / 2, top + 200, buttons=0)
    assert page.run("!document.querySelector('#curves-plot .tip').hidden")
    assert "norm=pre+warm-up=0" in page.run("document.querySelector('#curves-plot .tip').innerText")
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


def test_lines_that_end_close_together_can_be_told_apart(browser, writer):
    folder = writer.sweep()
    # A loss that falls evenly, so that its start alone hides nothing; arms end a hundredth apart.
    apart = {"pre-0": 0.0, "pre-100": 0.01, "post-0": 0.02, "post-100": 0.015}
    for path in folder.glob("*/metrics.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        rows = [{**row, "eval/loss": 5.5 - row["step"] / 100 + apart[path.parent.name[:-2]]} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    open_page(browser, write_page(load_sweep(folder), folder / "report.html").as_uri())
    assert any("are not shown" in text for text in texts(browser, "#overview-plot text"))
    assert max(float(text) for text in texts(browser, "#overview-plot text") if text[:2] in ("3.", "4.", "5.")) < 4.7
    browser.click("#tab-curves")
    browser.click("#curves-whole")
    assert not [text for text in texts(browser, "#curves-plot text") if "not shown" in text]


def test_bands_that_are_cut_are_said_to_go_on(page):
    page.click("#tab-curves")
    choose(page, "curves-minus", 0)
    assert not [text for text in texts(page, "#curves-plot text") if "bands go on" in text]
    choose(page, "curves-band", "interval")
    assert "↕ bands go on beyond the axis" in texts(page, "#curves-plot text")


def test_a_filter_that_no_arm_passes_leaves_no_empty_axis(page):
    page.run("document.querySelector('#overview .arm-filter input').focus()")
    page.call("Input.insertText", text="nothing")
    assert page.run("document.querySelector('#overview-plot .picture').textContent") == (
        "No arm is shown: all are hidden or filtered out."
    )
