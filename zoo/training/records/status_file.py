"""status.json: how far a run is, and how it ended."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError, Diverged, Preempted, ZooError, is_disk_full, not_writable
from zoo.files import write_json


class StatusFile:
    """Writes the status.json of one run.

    {"state": "running", "done", "failed", "diverged" or "preempted", "step": updates done, "steps":
    `training.steps`, "reason": of an unfinished run}; of a preempted run "saved"; and in the end
    "parameters_sha256" and, where devices count it, "peak_memory": bytes that a device has used at
    most.

    Args:
        workdir: the run's folder.
        records: where this process writes its records (see `zoo.training.startup.check`).
        steps: updates that the run is to have in the end.
        log: called with each line of console output.

    Attributes:
        step: updates done before training goes on.
    """

    def __init__(self, workdir: Path, records: Path, steps: int, log: Callable[[str], None]):
        self._workdir, self._path, self._steps, self._log = workdir, records / "status.json", steps, log
        self.step = 0

    def write_running(self) -> None:
        """Records that training goes on from `self.step`."""
        write_json(self._path, self._status("running", self.step))

    def write_done(
        self, step: int, parameters_sha256: str, seconds: float, peak_memory: int | None = None
    ) -> dict[str, Any]:
        """Records that the run is done; returns the final status.

        Args:
            step: updates done.
            parameters_sha256: of the trained parameters.
            seconds: of training.
            peak_memory: bytes that a device has used at most; None if unknown.
        """
        status = self._status("done", step) | {"parameters_sha256": parameters_sha256}
        used = ""
        if peak_memory is not None:
            status["peak_memory"], used = peak_memory, f", {peak_memory / 2**30:.2f} GiB of a device's memory at most"
        write_json(self._path, status)
        self._log(f"done: {step} steps in {seconds:.1f} s of training{used}")
        return status

    def write_failure(self, error: Exception, step: int | None = None) -> Exception:
        """Records that `error` ended the run; a ConfigError leaves no record.

        Args:
            error: what ended it.
            step: updates done; by default `self.step`.

        Returns:
            The error to report; for a full disk, one whose message says so.
        """
        if isinstance(error, ConfigError):
            return error
        if is_disk_full(error):
            path = getattr(error, "filename", None) or self._workdir
            advice = "; what was saved before is untouched, and the same command continues"
            error = not_writable(path, error, advice=advice).with_traceback(error.__traceback__)
        state = {Diverged: "diverged", Preempted: "preempted"}.get(type(error), "failed")
        reason = str(error) if isinstance(error, ZooError) else f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            status = self._status(state, self.step if step is None else step, reason)
            write_json(self._path, status | ({"saved": True} if state == "preempted" else {}))
        return error

    def _status(self, state: str, step: int, reason: str | None = None) -> dict[str, Any]:
        return {"state": state, "step": step, "steps": self._steps, "reason": reason}
