"""One browser for all tests of pages, and the page of a sweep with every kind of content."""

import json

import pytest

from tests.lab.report.browser.pages import open_page
from tests.lab.report.lab_reports import write_page
from tests.support.chromium import Browser
from zoo.lab.results.sweep_results import load_sweep


@pytest.fixture(scope="session")
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
