"""A process of the local pool: trains one run after another and keeps its compiled programs."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.cli import train
from zoo.training.runtime.allocator import keep_freed_memory


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains the runs that the pool names, until it closes the process's standard input.

    A line of standard input is a JSON object {"folder": the run's folder}; the run's output is
    appended to log.txt there. After each run that is done, a line "0" is written to the file
    descriptor that is the only argument. Any other end of a run ends the process with the exit code
    of `zoo train`.
    """
    (reply,) = map(int, sys.argv[1:] if arguments is None else arguments)
    keep_freed_memory()
    programs = None
    # Read without a buffer, so that nothing is taken ahead of time.
    for line in iter(sys.stdin.readline, ""):
        folder = Path(json.loads(line)["folder"])
        _append_output_to(folder / "log.txt")
        if programs is None:
            from zoo.training.program_cache import ProgramCache

            programs = ProgramCache()
        code = train.main([f"--config={folder / 'config.json'}", f"--workdir={folder}"], programs)
        sys.stdout.flush()
        sys.stderr.flush()
        if code:
            return code
        try:
            os.write(reply, b"0\n")
        except BrokenPipeError:  # The pool was killed; there is no other run.
            break
    return 0


def _append_output_to(log: Path) -> None:
    """Sends what this process and its libraries print to a file from now on."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
