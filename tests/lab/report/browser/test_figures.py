"""Charts of differences, heat maps and saved figures in a real browser."""

import json
import xml.etree.ElementTree as ElementTree

from tests.lab.report.browser.pages import in_a_browser, open_page, texts
from tests.lab.report.lab_reports import write_page
from zoo.lab.results.sweep_results import load_any

pytestmark = in_a_browser


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
