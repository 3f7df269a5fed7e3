"""What SLURM has of a sweep: the jobs that were submitted for its runs, and which of them are still
in its queue.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.files import read_json, write_json

FOLDER, FILE = "slurm", "jobs.json"
# States in which a job will not run any more. One that is COMPLETING may be about to be queued
# again.
OVER = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "REVOKED", "TIMEOUT")
SECONDS = 60


@dataclass(frozen=True)
class Submitted:
    """The last job that was submitted for a run: "ID_INDEX", and the folders of the runs that it
    waits for.
    """

    task: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Queued:
    """A job in the queue: its state and why it waits, in SLURM's words."""

    state: str
    reason: str = ""


def read_jobs(sweep: Path) -> dict[str, Submitted]:
    """The jobs of a sweep's runs, by the run's folder.

    Raises:
        ConfigError: a record that cannot be read.
    """
    found: dict[str, Submitted] = {}
    for job in _entries(sweep):
        try:
            found |= {
                run: Submitted(f"{job['id']}_{index}", tuple(job["needs"])) for index, run in enumerate(job["runs"])
            }
        except (KeyError, TypeError) as error:
            raise ConfigError(f"{sweep / FOLDER / FILE} is not a record of jobs") from error
    return found


def note_job(sweep: Path, job: str, script: Path, runs: Sequence[str], needs: Sequence[str]) -> None:
    """Adds a job, whose task number i trains the i-th of `runs`."""
    entry = {"id": job, "script": script.name, "runs": list(runs), "needs": list(needs)}
    write_json(sweep / FOLDER / FILE, {"jobs": [*_entries(sweep), entry]})


def _entries(sweep: Path) -> list[dict[str, Any]]:
    path = sweep / FOLDER / FILE
    try:
        content = read_json(path)
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, list):
        raise ConfigError(f"{path} is not a record of jobs")
    return jobs


def in_queue(sweep: Path, jobs: Mapping[str, Submitted]) -> dict[str, Queued] | None:
    """Which of `jobs`, by the run's folder, are in the queue; None where there is no SLURM to ask.

    Raises:
        ConfigError: SLURM does not answer.
    """
    if not jobs:
        return {}
    if shutil.which("squeue") is None:
        return None
    # Asked by who submitted them: of jobs that are gone squeue speaks as of an error.
    owner = os.stat(sweep / FOLDER / FILE).st_uid
    lines = ask(["squeue", "--noheader", "--array", f"--user={owner}", "--format=%i|%T|%r"]).splitlines()
    queue = {}
    for line in lines:
        task, _, rest = line.strip().partition("|")
        state, _, reason = rest.partition("|")
        if state not in OVER:
            queue[task] = Queued(state, "" if reason == "None" else reason)
    return {run: queue[job.task] for run, job in jobs.items() if job.task in queue}


def ask(command: Sequence[str], folder: Path | None = None) -> str:
    """The output of one of SLURM's commands.

    Raises:
        ConfigError: it is not there, fails or does not answer, with its last line.
    """
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise ConfigError(
            f"{command[0]} is not there: this is no machine of a SLURM cluster (--dry-run shows what would be submitted)"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{command[0]} does not answer: {error}") from error
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        why = (
            said[-1].removeprefix(f"{command[0]}: ").removeprefix("error: ") if said else f"exit code {done.returncode}"
        )
        raise ConfigError(f"{command[0]}: {why}")
    return done.stdout
