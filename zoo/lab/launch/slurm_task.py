"""The last step of a SLURM job: `python -m zoo.lab.launch.slurm_task FOLDER CODE`.

CODE is the exit code of srun. The exit code is that of the job: 75 if it should be requeued.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.lab.launch.run_outcome import record_outcome

ADVICE = "it may need more --time or a longer --grace"


def main(arguments: Sequence[str]) -> int:
    """Reads the arguments and returns the job's exit code; after an error here, that of srun."""
    folder, code = Path(arguments[0]), int(arguments[1])
    try:
        return record_outcome(folder, code, ADVICE)
    except OSError as error:
        print(f"{folder}: its outcome could not be recorded: {error}", file=sys.stderr)
        return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
