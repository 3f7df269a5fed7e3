"""The SLURM jobs of a sweep: all that were submitted, and those still in the queue."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.files import read_json, write_json

SLURM_FOLDER, JOBS_FILE = "slurm", "jobs.json"
# States of jobs that will not run again. A COMPLETING job may be about to be requeued.
ENDED_STATES = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "REVOKED",
    "TIMEOUT",
)
TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class SubmittedJob:
    """The last job that was submitted for a run.

    Attributes:
        task: "ID_INDEX".
        needs: folders of the runs that it waits for.
    """

    task: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class QueuedJob:
    """A job in the queue: its state and the reason why it waits, as SLURM names them."""

    state: str
    reason: str = ""


def read_jobs(sweep: Path) -> dict[str, SubmittedJob]:
    """Returns the last job of every run that was submitted, by the run's folder.

    Raises:
        ConfigError: the record of jobs cannot be read.
    """
    found: dict[str, SubmittedJob] = {}
    for job in _entries(sweep):
        try:
            found |= {
                run: SubmittedJob(f"{job['id']}_{index}", tuple(job["needs"])) for index, run in enumerate(job["runs"])
            }
        except (KeyError, TypeError) as error:
            raise ConfigError(f"{sweep / SLURM_FOLDER / JOBS_FILE} is not a record of jobs") from error
    return found


def record_job(sweep: Path, job: str, script: Path, runs: Sequence[str], needs: Sequence[str]) -> None:
    """Records a job array whose task i trains `runs[i]`; without runs, the job that goes on when they
    have ended.
    """
    entry = {"id": job, "script": script.name, "runs": list(runs), "needs": list(needs)}
    write_json(sweep / SLURM_FOLDER / JOBS_FILE, {"jobs": [*_entries(sweep), entry]})


def is_continuation(sweep: Path) -> bool:
    """Returns whether this process is a job of the sweep that goes on after its runs."""
    own = os.environ.get("SLURM_JOB_ID")
    return own is not None and own in _continuations(sweep)


def queued_continuations(sweep: Path) -> list[str]:
    """Returns the jobs in the queue that go on after the sweep's runs, without that of this process.

    Raises:
        ConfigError: SLURM does not answer.
    """
    jobs = {job: SubmittedJob(job) for job in _continuations(sweep) if job != os.environ.get("SLURM_JOB_ID")}
    return list(queued_jobs(sweep, jobs) or {})


def _continuations(sweep: Path) -> list[str]:
    return [str(job["id"]) for job in _entries(sweep) if isinstance(job, dict) and "id" in job and not job.get("runs")]


def _entries(sweep: Path) -> list[dict[str, Any]]:
    path = sweep / SLURM_FOLDER / JOBS_FILE
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


def queued_jobs(sweep: Path, jobs: Mapping[str, SubmittedJob]) -> dict[str, QueuedJob] | None:
    """Returns those of `jobs` that are in the queue, by the run's folder; None without SLURM.

    Raises:
        ConfigError: SLURM does not answer.
    """
    if not jobs:
        return {}
    if shutil.which("squeue") is None:
        return None
    # Asked by owner and not by job: squeue fails if it is asked for a job that it no longer knows.
    owner = os.stat(sweep / SLURM_FOLDER / JOBS_FILE).st_uid
    lines = run_slurm_command(["squeue", "--noheader", "--array", f"--user={owner}", "--format=%i|%T|%r"]).splitlines()
    queue = {}
    for line in lines:
        task, _, rest = line.strip().partition("|")
        state, _, reason = rest.partition("|")
        if state not in ENDED_STATES:
            queue[task] = QueuedJob(state, "" if reason == "None" else reason)
    return {run: queue[job.task] for run, job in jobs.items() if job.task in queue}


def outside_jobs(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment without what describes the job that a program runs in.

    sbatch hands its environment to the new job, whose srun would take over the CPUs and the memory
    of the job in which it was submitted. SBATCH_* are options of the user, and SLURM_CONF is the
    cluster's configuration.
    """
    if "SLURM_JOB_ID" not in environment:
        return dict(environment)
    of_job = ("SLURM_", "SLURMD_", "PMI_", "PMIX_")
    return {name: value for name, value in environment.items() if name == "SLURM_CONF" or not name.startswith(of_job)}


def run_slurm_command(command: Sequence[str], folder: Path | None = None) -> str:
    """Returns the output of a SLURM command.

    Raises:
        ConfigError: the command is missing, fails (with its last line), or does not answer.
    """
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            env=outside_jobs(os.environ),
        )
    except FileNotFoundError as error:
        raise ConfigError(
            f"{command[0]} not found: this machine is not part of a SLURM cluster (--dry-run shows what would be "
            "submitted)"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{command[0]} does not answer: {error}") from error
    if done.returncode:
        errors = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        why = errors[-1] if errors else f"exit code {done.returncode}"
        why = why.removeprefix(f"{command[0]}: ").removeprefix("error: ")
        raise ConfigError(f"{command[0]}: {why}")
    return done.stdout
