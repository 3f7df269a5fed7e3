"""A headless Chromium that tests control over its debugging pipe, with real clicks and keys and
screenshots.
"""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

PROGRAM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35, "Escape": 27, "Tab": 9, "Enter": 13, "+": 187}
TIMEOUT_SECONDS = 120


class Browser:
    """One page. `problems` collects its exceptions, logged errors and refused requests."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900):
        self.problems, self.requests = [], []
        self._numbers, self._buffer = itertools.count(1), b""
        browser_in, self._out = os.pipe()
        self._in, browser_out = os.pipe()

        def use_descriptors_3_and_4() -> None:
            # Duplicated first, because either descriptor may already be 3 or 4.
            first, second = os.dup(browser_in), os.dup(browser_out)
            os.dup2(first, 3)
            os.dup2(second, 4)

        (folder / "downloads").mkdir(parents=True, exist_ok=True)
        self.downloads = folder / "downloads"
        self._process = subprocess.Popen(
            [
                PROGRAM,
                *FLAGS,
                f"--user-data-dir={folder / 'profile'}",
                f"--window-size={width},{height}",
                "about:blank",
            ],
            preexec_fn=use_descriptors_3_and_4,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(browser_in)
        os.close(browser_out)
        self._session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))
        self.resize(width, height)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters):
        """Sends one command of the DevTools protocol and returns its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _read(self):
        end = time.monotonic() + TIMEOUT_SECONDS
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        found = json.loads(message)
        self._note(found.get("method"), found.get("params", {}))
        return found

    def _note(self, event, parameters) -> None:
        if event == "Runtime.exceptionThrown":
            self.problems.append(
                parameters["exceptionDetails"].get("exception", {}).get("description")
                or parameters["exceptionDetails"]["text"]
            )
        elif event == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(parameters["entry"]["text"])
        elif event == "Page.javascriptDialogOpening":
            self.problems.append(f"dialog: {parameters['message']}")
        elif event == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def open(self, address: str) -> None:
        """Opens a page and waits until it has loaded."""
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def run(self, script: str):
        """Returns the value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", {}).get("description"))
        return answer["result"].get("value")

    def until(self, script: str, seconds: float = 60) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.05)

    def click(self, selector: str, nth: int = 0) -> None:
        """Clicks the middle of a visible element."""
        box = self.run(
            f"(() => {{ const it = [...document.querySelectorAll({json.dumps(selector)})].filter((e) => e.getClientRects().length)[{nth}];"
            "it.scrollIntoView({block: 'center'}); const r = it.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        # A real mouse moves there before it clicks.
        self.mouse("mouseMoved", *box, buttons=0)
        self.mouse("mousePressed", *box)
        self.mouse("mouseReleased", *box)

    def mouse(self, kind: str, x: float, y: float, buttons: int = 1) -> None:
        button = "none" if kind == "mouseMoved" and not buttons else "left"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons, clickCount=1)

    def key(self, name: str) -> None:
        """Presses one key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=KEYS[name])

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name: str) -> None:
        """Sets the system's colour scheme: "light" or "dark"."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path: Path, full: bool = False) -> Path:
        """Saves the visible part of the page, or all of it, as PNG."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)["data"]
        path.write_bytes(base64.b64decode(data))
        return path

    def downloaded(self, ending: str, seconds: float = 30) -> Path:
        """Waits for a downloaded file whose name has the given ending and returns its path."""
        end = time.monotonic() + seconds
        while not (found := [path for path in self.downloads.iterdir() if path.name.endswith(ending)]):
            self.run("1")
            assert time.monotonic() < end, f"no file {ending} was saved"
            time.sleep(0.05)
        return found[0]
