"""Turns the errors that users cause into plain lines and exit codes."""

import errno
import functools
import os
import sys
from collections.abc import Callable

from zoo.errors import ConfigError, ZooError


def reported(main: Callable[..., int]) -> Callable[..., int]:
    """Wraps a command: a `ZooError` becomes one line per problem on stderr and its exit code, without a traceback."""

    @functools.wraps(main)
    def wrapper(*arguments, **keywords) -> int:
        try:
            return main(*arguments, **keywords)
        except ZooError as error:
            for problem in dict.fromkeys(error.problems):
                print(f"error: {problem}" if error.exit_code != 75 else problem, file=sys.stderr)
            return error.exit_code
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        except BrokenPipeError:
            # The reader of our output has gone (`| head`): not an error of ours, and nothing more can be printed.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except OSError as error:
            # Of a path that was given: a name that no file can have, a folder that may not be entered. Others are for a traceback.
            if error.errno not in (errno.ENAMETOOLONG, errno.EACCES) or error.filename is None:
                raise
            print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
            return ConfigError.exit_code

    return wrapper
