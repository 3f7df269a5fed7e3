"""Metric trackers: TensorBoard, Weights & Biases and Trackio. A failing tracker never stops a run."""

import importlib.util
import os
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from zoo.config import AUTO, ResolvedConfig, to_plain
from zoo.errors import ConfigError, did_you_mean, one_line
from zoo.files import read_object_or_empty, write_json

Line = dict[str, Any]
"""A line of metrics.jsonl."""


def scalars(line: Line) -> dict[str, float]:
    """Returns the values of a line that are points of curves."""
    return {name: value for name, value in line.items() if name != "step" and isinstance(value, int | float)}


def line_key(line: Line) -> tuple[int, bool]:
    """Returns what identifies a line within a run: (step, whether it is an evaluation)."""
    return line["step"], "eval/loss" in line


class TensorBoard:
    """Event files in the run's folder `tensorboard`, written by tensorboardX."""

    def __init__(self, workdir: Path, config: ResolvedConfig, step: int, resumed: bool, identity: str):
        from tensorboardX import SummaryWriter

        del config, identity
        # Two writers that open within one second would otherwise choose the same file name.
        suffix = f".{uuid.uuid4().hex[:8]}"
        self._writer = SummaryWriter(
            str(workdir / "tensorboard"), purge_step=step if resumed else None, filename_suffix=suffix
        )

    @staticmethod
    def is_resent(line: Line, step: int) -> bool:
        """Returns whether TensorBoard purged the line: from the step on that a run resumes at."""
        return line["step"] >= step

    def write(self, line: Line) -> None:
        """Writes one line and flushes, so that a kill loses nothing."""
        for name, value in scalars(line).items():
            self._writer.add_scalar(name, value, line["step"])
        self._writer.flush()

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()


class WeightsAndBiases:
    """A run of Weights & Biases, resumed by its id.

    Key, entity and mode come from its own settings (`wandb login`, WANDB_...). Runs of a population
    share a process; each is a run of its own there.
    """

    def __init__(self, workdir: Path, config: ResolvedConfig, step: int, resumed: bool, identity: str):
        import wandb

        del step, resumed
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "zoo"),
            group=workdir.resolve().parent.name,
            name=workdir.name,
            id=identity,
            resume="allow",
            reinit="create_new",
            config=to_plain(config),
            dir=str(workdir),
        )

    @staticmethod
    def is_resent(line: Line, step: int) -> bool:
        """Returns False: lines that were sent before stay there."""
        return False

    def write(self, line: Line) -> None:
        """Sends one line."""
        self._run.log(scalars(line), step=line["step"])

    def close(self) -> None:
        """Waits until every line is sent."""
        self._run.finish()


class Trackio(WeightsAndBiases):
    """A run of trackio, resumed by its name, which ends in its id.

    TRACKIO_PROJECT names the project, TRACKIO_SPACE_ID a Space.
    """

    def __init__(self, workdir: Path, config: ResolvedConfig, step: int, resumed: bool, identity: str):
        import trackio

        del step, resumed
        self._run = trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", "zoo"),
            name=f"{workdir.name}-{identity}",
            resume="allow",
            config=to_plain(config),
        )


# Name -> (required package, class).
TRACKERS = {
    "tensorboard": ("tensorboardX", TensorBoard),
    "wandb": ("wandb", WeightsAndBiases),
    "trackio": ("trackio", Trackio),
}


def is_installed(name: str) -> bool:
    """Returns whether a tracker's package can be imported, without importing it."""
    return importlib.util.find_spec(TRACKERS[name][0]) is not None


def check_trackers(names: Iterable[str]) -> None:
    """Refuses unknown trackers and those whose package is missing.

    Raises:
        ConfigError: naming the missing package.
    """
    problems = []
    for name in () if names == AUTO else names:
        if name not in TRACKERS:
            problems.append(
                f"training.trackers={name} is not one of {', '.join(TRACKERS)}{did_you_mean(name, TRACKERS)}; leave it "
                "empty for none"
            )
        elif not is_installed(name):
            package = TRACKERS[name][0]
            problems.append(
                f"training.trackers={name} needs the package {package}, which is not installed: pip install {package}"
            )
    if problems:
        raise ConfigError(problems)


class RunTrackers:
    """The trackers of one run; a tracker that fails is left out for the rest of the run.

    `tracked.json` in the run's folder holds the run's id for each tracker, so that a resumed run
    continues as the same one there.

    Args:
        config: the resolved config; `training.trackers` names the trackers. `auto` is TensorBoard
            where its package is installed, otherwise none.
        workdir: the run's folder.
        step: updates done before.
        kept: the lines of metrics.jsonl up to `step`.
        removed: the lines that were removed from it; they will be written again.
        log: receives a warning when a tracker fails.
    """

    def __init__(
        self,
        config: ResolvedConfig,
        workdir: Path,
        step: int,
        kept: list[Line],
        removed: list[Line],
        log: Callable[[str], None],
    ):
        self._log, self._trackers, self._sent = log, {}, {}
        names = config.training.trackers
        names = filter(is_installed, ("tensorboard",)) if names == AUTO else dict.fromkeys(names)
        for name in names:
            self._leave_out_on_error(name, partial(self._start, name, config, workdir, step, kept, removed))

    def _start(
        self, name: str, config: ResolvedConfig, workdir: Path, step: int, kept: list[Line], removed: list[Line]
    ) -> None:
        record = workdir / "tracked.json"
        known = read_object_or_empty(record)
        resumed, identity = name in known, known.get(name, uuid.uuid4().hex[:12])
        self._trackers[name] = tracker = TRACKERS[name][1](workdir, config, step, resumed, identity)
        # A tracker that has not seen the run before receives all its lines.
        for line in kept:
            if not resumed or tracker.is_resent(line, step):
                tracker.write(line)
        write_json(record, known | {name: identity})
        self._sent[name] = {line_key(line) for line in removed if resumed and not tracker.is_resent(line, step)}

    def write(self, line: Line) -> None:
        """Passes a line of metrics.jsonl to the trackers that have not received it before."""
        for name, tracker in list(self._trackers.items()):
            if line_key(line) not in self._sent[name]:
                self._leave_out_on_error(name, partial(tracker.write, line))

    def close(self) -> None:
        """Closes all trackers."""
        for name, tracker in list(self._trackers.items()):
            self._leave_out_on_error(name, tracker.close)

    def _leave_out_on_error(self, name: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._trackers.pop(name, None)
            message = f"{type(error).__name__}: {one_line(error)}"
            self._log(f"warning: {name} failed and is left out from now on; metrics.jsonl has everything: {message}")
