"""The errors a user can cause, each with the exit code that scripts and launchers rely on."""

import difflib
import errno
import functools
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from zoo.terminal import escape_line, escaped_output

# Most characters of a value that a message quotes, and most choices that it names.
LONGEST_QUOTE, MOST_LISTED = 200, 10
# Most problems that are printed, and most characters of each.
MOST_PROBLEMS, LONGEST_LINE = 50, 2000
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORBIDDEN = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS)
_OS_ERROR = re.compile(r"os[ _]error(?:_code=')? ?(\d+)", re.IGNORECASE)


class ZooError(Exception):
    """Base of all errors that are reported as plain lines, without a traceback.

    Args:
        problems: one line, or a list with one line per problem.
    """

    exit_code = 1

    def __init__(self, problems: str | list[str]):
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class ConfigError(ZooError):
    """A bad config or flag, including a file or folder that does not exist."""

    exit_code = 2


class DataError(ZooError):
    """Data that exists but has bad content."""

    exit_code = 3


class Diverged(ZooError):
    """The loss or the gradient became infinite or not a number."""

    exit_code = 4


class Preempted(ZooError):
    """Stopped by a signal, with everything saved: the same command continues the run."""

    exit_code = 75


def os_error_number(error: BaseException) -> int | None:
    """Returns the number of an error of the system, which some libraries that write give only in
    their message; None for other errors.
    """
    if number := getattr(error, "errno", None):
        return number
    found = _OS_ERROR.search(str(error))
    return int(found[1]) if found else None


def is_disk_full(error: BaseException) -> bool:
    """Returns whether there was no space left to write, on the disk or in the user's quota."""
    return os_error_number(error) in DISK_FULL


def not_writable(path: object, error: BaseException, what: str = "", advice: str = "") -> ZooError:
    """Returns the error of one line for what cannot be written.

    A full disk is no mistake in a flag: its exit code is 1, that of others 2.

    Args:
        path: file or folder.
        error: of the system, or of a library that writes.
        what: what the path is, at the beginning of the line, such as a flag.
        advice: what to do, at the end of the line.
    """
    number = os_error_number(error)
    line = f"{what} {path}".lstrip() + f" cannot be written: {str(error) if number is None else os.strerror(number)}"
    if not is_disk_full(error):
        return ConfigError(line + advice)
    place = os.path.abspath(path)
    while not os.path.isdir(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    free = shutil.disk_usage(place).free
    return ZooError(f"{line} ({free / 1e6:,.1f} MB free on its disk){advice}")


def shortened(text: str, most: int = LONGEST_QUOTE) -> str:
    """Returns a text that a message quotes, cut to 200 characters or to `most`."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def shown(value: object) -> str:
    """Returns the `repr` of a value that a message quotes, cut to 200 characters."""
    try:
        return shortened(repr(value))
    except ValueError:  # An integer of more digits than Python converts.
        return f"an integer of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"


def listed(names: Iterable[object], most: int = MOST_LISTED) -> str:
    """Returns names separated by commas; of more than `most`, the first ones and how many follow."""
    names = [shortened(str(name)) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def one_line(error: BaseException) -> str:
    """Returns the message of another library's error as one line, cut to 200 characters; the name of
    its class if it has none.
    """
    return shortened(" ".join(str(error).split()) or type(error).__name__)


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Returns ' (did you mean "x"?)' for the option closest to `word`, or an empty string."""
    options, word = list(options), str(word)[:LONGEST_QUOTE]
    leaf = word.rsplit(".", 1)[-1]
    leaves = {option.rsplit(".", 1)[-1] for option in options}
    # A right name under the wrong parent is the commonest slip in a dotted path; then a misspelt
    # path; then a misspelt name.
    close = _nearest(word, leaf, options) or difflib.get_close_matches(word, options, n=1)
    close = close or [_nearest(word, near, options)[0] for near in difflib.get_close_matches(leaf, leaves, n=1)]
    return f' (did you mean "{close[0]}"?)' if close else ""


def user_path(path: str | Path) -> Path:
    """Returns a path with the user's home folder in place of "~", or that of NAME in place of "~NAME".

    Raises:
        ConfigError: there is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = Path(path).parts[0]
        raise ConfigError(
            f'"{path}": there is no home folder of "{user}"; of a folder of that name, write ./{user}'
        ) from None


def why_no_file(path: str | Path, others: str = "") -> str:
    """Returns in words why a path names no regular file: "does not exist", "is a folder" ...

    Args:
        path: the path.
        others: glob pattern of files in the same folder to suggest from.
    """
    path = Path(path)
    if path.is_dir():
        return "is a folder, not a file"
    if path.exists():
        return "is not a regular file"
    if path.is_symlink():
        return "is a link to a file that does not exist"
    near = [other.name for other in path.parent.glob(others) if other.is_file()] if others else []
    return f"does not exist{did_you_mean(path.name, near)}"


def _nearest(word: str, leaf: str, options: list[str]) -> list[str]:
    """The option closest to `word` among those whose last part is `leaf`, if there is any."""
    return difflib.get_close_matches(
        word, [option for option in options if option.rsplit(".", 1)[-1] == leaf], n=1, cutoff=0.0
    )


def _discard_output(stream: TextIO | None = None) -> None:
    """Sends an output, by default the standard one, and what is in its buffer, nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def print_while_read(line: str, stream: TextIO) -> None:
    """Prints a line of progress or of an error. If nobody reads it any more (`| head`, a closed
    terminal), it and all later ones are dropped: a run goes on, and an exit code stays what it is.
    """
    try:
        print(line, file=stream, flush=True)
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        _discard_output(stream)


def reported(main: Callable[..., int]) -> Callable[..., int]:
    """Wraps a command: a `ZooError` becomes one line per problem on stderr and its exit code,
    without a traceback; control characters in all output are escaped.
    """

    @functools.wraps(main)
    def wrapper(*arguments, **keywords) -> int:
        with escaped_output():
            return run(*arguments, **keywords)

    def run(*arguments, **keywords) -> int:
        try:
            code = main(*arguments, **keywords)
            try:
                # Printed text may still be in a buffer.
                sys.stdout.flush()
            except BrokenPipeError:
                _discard_output()
            return code
        except ZooError as error:
            problems = list(dict.fromkeys(error.problems))
            for problem in problems[:MOST_PROBLEMS]:
                line = escape_line(shortened(problem, LONGEST_LINE))
                print_while_read(f"error: {line}" if error.exit_code != 75 else line, sys.stderr)
            if len(problems) > MOST_PROBLEMS:
                print_while_read(f"error: and {len(problems) - MOST_PROBLEMS:,} more", sys.stderr)
            return error.exit_code
        except KeyboardInterrupt:
            print_while_read("interrupted", sys.stderr)
            return 130
        except BrokenPipeError:
            # The reader of the output has gone (`| head`) before the command was done: it exits with
            # the code that shells give to a program killed by SIGPIPE.
            _discard_output()
            return 128 + signal.SIGPIPE
        except OSError as error:
            if is_disk_full(error):
                if error.filename is None:
                    _discard_output()
                line = f"the output cannot be written: {error.strerror}" if error.filename is None else None
                print_while_read(f"error: {line or not_writable(error.filename, error)}", sys.stderr)
                return ZooError.exit_code
            # Of a path that was given: a name that no file can have, a folder that may not be
            # entered or written. Others are for a traceback.
            if error.errno not in FORBIDDEN or error.filename is None:
                raise
            print_while_read(f"error: {shortened(str(error.filename))}: {error.strerror}", sys.stderr)
            return ConfigError.exit_code

    return wrapper


def line_of(error: BaseException, file: str) -> str:
    """Returns ", line N" for the line of a file at which an exception was raised."""
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
    return f", line {lines[-1]}," if lines else ""
