"""Serves the report of running sweeps to this machine; the page polls for newer versions.

A folder of sweeps is served as an index, and each sweep under its name.
"""

import errno
import hashlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote

from zoo.errors import ConfigError
from zoo.lab.measures import MEASURED_FILE
from zoo.lab.report.html_page import render
from zoo.lab.report.index_page import read_entry, render_index, sweep_folders
from zoo.lab.results.notes import NOTES_FILE
from zoo.lab.results.sweep_results import SweepResults, load_any
from zoo.lab.results.verdict import judge

HOST = "127.0.0.1"
FILES = (
    "status.json",
    "metrics.jsonl",
    "config.json",
    "meta.json",
    "dynamics.jsonl",
    "samples.jsonl",
    "translations.jsonl",
    MEASURED_FILE,
)
# Share of the time that making pages may take: sweeps of hundreds of runs take seconds to read.
SHARE = 0.2


def signature(folder: Path) -> str:
    """Returns a hash of the modification times and sizes of all files that a report reads."""
    found = []
    places = (
        [folder, *sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())] if folder.is_dir() else [folder]
    )
    for place in places:
        for name in ("experiment.json", NOTES_FILE, *FILES):
            try:
                stat = os.stat(os.path.join(place, name))
            except OSError:
                continue
            found.append(f"{place}/{name} {stat.st_mtime_ns} {stat.st_size}")
    return hashlib.sha256("\n".join(found).encode(errors="surrogateescape")).hexdigest()[:16]


class Pages:
    """The newest page of a folder; while files cannot be read, the last page stays.

    Args:
        folder: folder of a sweep or of a single run.
        now: a clock in seconds.

    Raises:
        ConfigError: the folder is neither, or files in it are damaged from the start.
    """

    def __init__(self, folder: Path, now: Callable[[], float] = time.monotonic):
        self.folder, self._now, self._lock = folder, now, threading.Lock()
        self._version, self._seen, self._page, self._next = "", "", b"", -1.0
        self._make(load_any(folder), signature(folder))

    def _make(self, sweep: SweepResults, version: str) -> None:
        begun = self._now()
        self._page = render(sweep, judge(sweep), None, version).encode("utf-8")
        self._version = self._seen = version
        self._next = self._now() + (self._now() - begun) / SHARE

    def newest(self) -> tuple[str, bytes]:
        """Returns (version, page), rendered anew if files changed and the last is old enough."""
        with self._lock:
            if self._now() >= self._next and (version := signature(self.folder)) != self._seen:
                self._seen = version
                begun = self._now()
                with suppress(ConfigError, OSError):
                    self._make(load_any(self.folder), version)
                self._next = self._now() + (self._now() - begun) / SHARE
            return self._version, self._page


class Site:
    """The pages of a folder of sweeps, and an index over them.

    Args:
        folder: holds the folders of sweeps.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._pages: dict[str, Pages] = {}
        self._lock = threading.Lock()
        self._index, self._next = b"", -1.0

    def index(self) -> bytes:
        """Returns the index, rendered anew if the last one is old enough."""
        with self._lock:
            begun = time.monotonic()
            if begun >= self._next:
                entries = [
                    read_entry(folder, f"./{quote(folder.name, errors='replace')}/")
                    for folder in sweep_folders(self.folder)
                ]
                self._index = render_index(self.folder, entries, followed=True).encode("utf-8")
                self._next = time.monotonic() + (time.monotonic() - begun) / SHARE
            return self._index

    def pages(self, name: str) -> Pages | None:
        """Returns the pages of the sweep in the folder `name`; None without one that can be read."""
        with self._lock:
            if name not in self._pages and any(folder.name == name for folder in sweep_folders(self.folder)):
                with suppress(ConfigError, OSError):
                    self._pages[name] = Pages(self.folder / name)
            return self._pages.get(name)


class _Handler(BaseHTTPRequestHandler):
    server: "Server"

    def do_GET(self) -> None:
        # With any other name of this machine a foreign page could read this one (DNS rebinding).
        name = self.headers.get("Host", "").partition(":")[0]
        if name not in (HOST, "localhost"):
            return self._answer(403, "text/plain", b"the host must be 127.0.0.1 or localhost\n")
        path = self.path.partition("?")[0]
        if path == "/favicon.ico":
            return self._answer(204, "image/x-icon", b"")
        pages = self.server.pages
        if isinstance(pages, Site):
            if path == "/":
                return self._answer(200, "text/html", pages.index())
            name, _, rest = path.removeprefix("/").partition("/")
            pages, path = pages.pages(unquote(name, errors="replace")), f"/{rest}"
        if pages is not None and path == "/":
            return self._answer(200, "text/html", pages.newest()[1])
        if pages is not None and path == "/version":
            return self._answer(200, "text/plain", pages.newest()[0].encode())
        return self._answer(404, "text/plain", b"not found; the report is at /\n")

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        """Requests are not logged."""


class Server(ThreadingHTTPServer):
    """Serves the newest page of a sweep or a run, or of the sweeps of a folder, on 127.0.0.1.

    Raises:
        ConfigError: the port is in use or not allowed.
    """

    daemon_threads = True

    def __init__(self, pages: Pages | Site, port: int):
        self.pages = pages
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise ConfigError(f"--port {port} {why}; choose another one, or 0 for any free port") from error

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that disconnects is not an error."""
