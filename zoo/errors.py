"""The errors a user can cause, each with the exit code that scripts and launchers rely on."""

import difflib
import errno
import functools
import os
import sys
from collections.abc import Callable, Iterable

from zoo.terminal import escape_line, escaped_output


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


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Returns ' (did you mean "x"?)' for the option closest to `word`, or an empty string."""
    options = list(options)
    leaf = str(word).rsplit(".", 1)[-1]
    leaves = {option.rsplit(".", 1)[-1] for option in options}
    # A right name under the wrong parent is the commonest slip in a dotted path; then a misspelt
    # path; then a misspelt name.
    close = _nearest(word, leaf, options) or difflib.get_close_matches(str(word), options, n=1)
    close = close or [_nearest(word, near, options)[0] for near in difflib.get_close_matches(leaf, leaves, n=1)]
    return f' (did you mean "{close[0]}"?)' if close else ""


def _nearest(word: str, leaf: str, options: list[str]) -> list[str]:
    """The option closest to `word` among those whose last part is `leaf`, if there is any."""
    return difflib.get_close_matches(
        str(word), [option for option in options if option.rsplit(".", 1)[-1] == leaf], n=1, cutoff=0.0
    )


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
            return main(*arguments, **keywords)
        except ZooError as error:
            for problem in dict.fromkeys(error.problems):
                line = escape_line(problem)
                print(f"error: {line}" if error.exit_code != 75 else line, file=sys.stderr)
            return error.exit_code
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        except BrokenPipeError:
            # The reader of our output has gone (`| head`): not an error of ours, and nothing more
            # can be printed.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except OSError as error:
            # Of a path that was given: a name that no file can have, a folder that may not be
            # entered. Others are for a traceback.
            if error.errno not in (errno.ENAMETOOLONG, errno.EACCES) or error.filename is None:
                raise
            print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
            return ConfigError.exit_code

    return wrapper
