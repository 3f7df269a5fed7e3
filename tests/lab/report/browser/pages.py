"""Opens pages in the browser and reads them."""

import json

import pytest

from tests.support.chromium import PROGRAM

in_a_browser = [
    pytest.mark.promise(reason="pages are opened in a browser"),
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine"),
]

LINES = "document.querySelectorAll('#curves-plot [data-line]').length"
LEGEND = "#curves .legend button"


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
