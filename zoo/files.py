"""Atomic writing and tolerant reading of small files, and the folder of the caches."""

import contextlib
import json
import logging
import math
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, BinaryIO

# Far more than any record of a run has; what is longer is not parsed.
MAX_FILE_BYTES, MAX_LINE_BYTES = 2**30, 2**20
LARGEST_STEP, LARGEST_NUMBER = 2**53, 3.4028235e38

# Endings of the files that a shell or a scheduler creates in a folder before the command starts.
OUTPUT_ENDINGS = (".log", ".out", ".err")


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Writes a file so that a reader sees the old one or the new one, never a part of it.

    Raises:
        OSError: with the name of the file. Nothing is left of the new one.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        error.filename = str(path)
        raise


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for writing in binary that gets its name when it is complete and on disk.

    Of two processes that write a file, the one that completes it last has the name. If the body
    raises, nothing is left.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: str | Path, value: Any) -> None:
    """Writes `value` as indented JSON, atomically. NaN and infinities are refused: they are not
    JSON.
    """
    write_atomic(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def open_file(path: str | Path) -> BinaryIO:
    """Opens a regular file for reading in binary; never waits, as for the writer of a FIFO.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: it is a folder, a FIFO or a device, or no file can have this name.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("not a regular file")
    return os.fdopen(descriptor, "rb")


def file_above(path: Path) -> Path | None:
    """Returns the first parent of `path` that exists and is not a folder, or None."""
    return next((parent for parent in path.parents if parent.exists() and not parent.is_dir()), None)


def read_json(path: str | Path) -> Any:
    """Reads one JSON document.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: it is no regular file, holds something else, is nested too deeply to be read, or
            has 1 GiB or more.
    """
    with open_file(path) as file:
        content = file.read(MAX_FILE_BYTES)
    if not content.strip():
        raise ValueError("it is empty")
    if len(content) == MAX_FILE_BYTES:
        raise ValueError(f"it has {MAX_FILE_BYTES} bytes or more")
    return parse_json(content)


def parse_json(text: str | bytes) -> Any:
    """Parses a JSON document; bytes are UTF-8.

    Raises:
        ValueError: it is none, or is nested too deeply to be read.
    """
    try:
        return json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def foreign_entries(folder: Path, known: Container[str]) -> list[str]:
    """Returns the sorted names in a folder that are neither in `known` nor output of a shell or a
    scheduler nor left over from `write_atomic`; empty if there is no folder.
    """
    if not folder.is_dir():
        return []
    names = sorted(path.name for path in folder.iterdir())
    return [
        name
        for name in names
        if name not in known
        and not name.endswith(OUTPUT_ENDINGS)
        and not (name.startswith(".") and name.endswith(".tmp"))
    ]


def remove_tree(folder: Path) -> None:
    """Removes a folder that threads of a failed save may go on to write to, or make anew, for a
    moment: until it has been gone for half a second, at most for four.
    """
    gone = 0
    for _ in range(40):
        if folder.exists():
            gone = 0
            shutil.rmtree(folder, ignore_errors=True)
        elif (gone := gone + 1) > 5:
            return
        time.sleep(0.1)


def read_object_or_empty(path: str | Path) -> dict[str, Any]:
    """Reads a JSON object; empty if the file is missing or holds something else."""
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def read_json_lines(path: str | Path, start: int = 0) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Yields (line, the JSON object in it) for the lines of a file that are not blank.

    Lines have their line break. The object is None in a line that is torn, damaged or longer than
    1 MiB; such a long line is yielded in part. A missing file, or one that is no regular file,
    yields nothing.

    Args:
        path: the file.
        start: byte at which reading starts; the rest of a line that begins before it is left out.
    """
    try:
        file = open_file(path)
    except (OSError, ValueError):
        return
    with file:
        if start > 0:
            file.seek(start - 1)
            _skip_line(file)
        while line := file.readline(MAX_LINE_BYTES):
            whole = len(line) < MAX_LINE_BYTES or line.endswith(b"\n")
            if not whole:
                _skip_line(file)
            if line.strip():
                yield line, _object_in(line) if whole else None


def is_step(value: Any) -> bool:
    """Returns whether a value read from JSON can be a number of updates."""
    return type(value) is int and 0 <= value <= LARGEST_STEP


def number_in(value: Any) -> float | None:
    """Returns a number read from JSON: NaN for null and for numbers beyond the range of a 32-bit
    float, so that sums and squares stay finite; None for a value that is not a number.
    """
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= LARGEST_NUMBER else math.nan


def printable(value: Any) -> Any:
    """Replaces lone surrogates in all strings of a value read from JSON: no output can hold them."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    return [printable(item) for item in value] if isinstance(value, list) else value


def _skip_line(file: BinaryIO) -> None:
    while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
        pass


def _object_in(line: bytes) -> dict[str, Any] | None:
    try:
        value = parse_json(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def can_be_created(folder: Path) -> bool:
    """Returns whether a folder exists or could be made, and files be written there."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def keep_matplotlib_quiet() -> None:
    """Gives Matplotlib a folder for its caches where its own cannot be written, as in a home that is
    read-only.

    To be called before it is imported: it would warn in every process, and list all fonts anew.
    """
    homes = (("XDG_CONFIG_HOME", ".config"), ("XDG_CACHE_HOME", ".cache"))
    own = [Path(os.environ.get(name) or Path.home() / folder) / "matplotlib" for name, folder in homes]
    if "MPLCONFIGDIR" in os.environ or all(map(can_be_created, own)):
        return
    folder = cache_directory() / "matplotlib"
    if not can_be_created(folder):
        folder = Path(tempfile.gettempdir()) / f"zoo-matplotlib-{os.getuid()}"
    os.environ["MPLCONFIGDIR"] = str(folder)
    # It says at the first use that it lists the fonts.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)


def cache_directory() -> Path:
    """Folder for tokenised corpora and compiled programs: `$ZOO_CACHE`, or `~/.cache/zoo`."""
    return Path(os.environ.get("ZOO_CACHE") or Path.home() / ".cache" / "zoo")
