"""The last step of a SLURM job: `python -m zoo.lab.launch.slurm_task FOLDER CODE`.

CODE is the exit code of srun. The exit code is that of the job: 75 if it should be requeued.
"""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.lab.launch.run_outcome import ATTEMPT_FILE, record_outcome
from zoo.training.runtime.folder_lock import is_held

ADVICE = "it may need more --time or a longer --grace"


def main(arguments: Sequence[str]) -> int:
    """Reads the arguments and returns the job's exit code; after an error here, that of srun."""
    folder, code = Path(arguments[0]), int(arguments[1])
    try:
        code_of_job = record_outcome(folder, code, ADVICE)
    except OSError as error:
        print(f"{folder}: its outcome could not be recorded: {error}", file=sys.stderr)
        return code
    # A file that is left stands for an attempt that was lost before its outcome was recorded. A
    # process that still trains the run, on a node that SLURM has lost, needs it when it ends.
    if not is_held(folder):
        with contextlib.suppress(OSError):
            (folder / ATTEMPT_FILE).unlink(missing_ok=True)
    return code_of_job


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
