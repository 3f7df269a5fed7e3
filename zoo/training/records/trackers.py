"""Trackers: other programs that show the lines of metrics.jsonl while a run goes on. None of them
can stop it.
"""

import importlib.util
import os
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from zoo.config import AUTO, ResolvedConfig, to_plain
from zoo.errors import ConfigError, did_you_mean
from zoo.files import read_json, write_json

Line = dict[str, Any]
"""A line of metrics.jsonl."""


def numbers(line: Line) -> dict[str, float]:
    """What of a line is a point of a curve."""
    return {name: value for name, value in line.items() if name != "step" and isinstance(value, int | float)}


def kind_of(line: Line) -> tuple[int, bool]:
    """What tells two lines of one run apart: the step, and whether it is that of an evaluation."""
    return line["step"], "eval/loss" in line


class TensorBoard:
    """Event files in the run's folder `tensorboard`, written by tensorboardX."""

    def __init__(self, workdir: Path, config: ResolvedConfig, step: int, again: bool, identity: str):
        from tensorboardX import SummaryWriter

        del config, identity
        # Two writers that open within a second would else take the same file name.
        suffix = f".{uuid.uuid4().hex[:8]}"
        self._writer = SummaryWriter(
            str(workdir / "tensorboard"), purge_step=step if again else None, filename_suffix=suffix
        )

    @staticmethod
    def resent(line: Line, step: int) -> bool:
        """From the step on that a run continues from, TensorBoard forgets what it was shown."""
        return line["step"] >= step

    def write(self, line: Line) -> None:
        """Shows one line; flushed, so that a kill loses nothing."""
        for name, value in numbers(line).items():
            self._writer.add_scalar(name, value, line["step"])
        self._writer.flush()

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()


class WeightsAndBiases:
    """A run of Weights & Biases, continued under its id; key, entity and mode come from its own
    settings (`wandb login`, WANDB_...).

    The members of a population are runs of one process, each of its own.
    """

    def __init__(self, workdir: Path, config: ResolvedConfig, step: int, again: bool, identity: str):
        import wandb

        del step, again
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
    def resent(line: Line, step: int) -> bool:
        """What it was sent before stays, and is not sent twice."""
        return False

    def write(self, line: Line) -> None:
        """Sends one line."""
        self._run.log(numbers(line), step=line["step"])

    def close(self) -> None:
        """Waits until everything is sent."""
        self._run.finish()


class Trackio(WeightsAndBiases):
    """A run of trackio, continued under its name, which ends in its id; TRACKIO_PROJECT names the
    project, TRACKIO_SPACE_ID a Space.
    """

    def __init__(self, workdir: Path, config: ResolvedConfig, step: int, again: bool, identity: str):
        import trackio

        del step, again
        self._run = trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", "zoo"),
            name=f"{workdir.name}-{identity}",
            resume="allow",
            config=to_plain(config),
        )


# By name: the package that has to be there, and what uses it. The names are those of the extras in
# pyproject.toml.
TRACKERS = {
    "tensorboard": ("tensorboardX", TensorBoard),
    "wandb": ("wandb", WeightsAndBiases),
    "trackio": ("trackio", Trackio),
}


def installed(name: str) -> bool:
    """Whether a tracker's package can be imported; it is not."""
    return importlib.util.find_spec(TRACKERS[name][0]) is not None


def check_trackers(names: Iterable[str]) -> None:
    """Refuses trackers that there are not, before anything is done.

    Raises:
        ConfigError: naming the package that is missing.
    """
    problems = []
    for name in () if names == AUTO else names:
        if name not in TRACKERS:
            problems.append(
                f"training.trackers={name} is not one of {', '.join(TRACKERS)}{did_you_mean(name, TRACKERS)}"
            )
        elif not installed(name):
            package = TRACKERS[name][0]
            problems.append(
                f"training.trackers={name} needs the package {package}, which is not installed: pip install 'zoo[{name}]'"
            )
    if problems:
        raise ConfigError(problems)


class Tracked:
    """The trackers of a run, each of which is left out for the rest of it once it fails.

    `tracked.json` in the run's folder holds the id that each tracker knows the run by, so that a
    run that goes on is the same one there.

    Args:
        config: resolved; `training.trackers` names them. `auto` is TensorBoard where its package is
            installed, else none.
        workdir: the run's folder.
        step: updates that the run continues from.
        kept: what metrics.jsonl holds up to there.
        dropped: what was cut off it, and comes again.
        log: is told of a tracker that fails.
    """

    def __init__(
        self,
        config: ResolvedConfig,
        workdir: Path,
        step: int,
        kept: list[Line],
        dropped: list[Line],
        log: Callable[[str], None],
    ):
        self._log, self._trackers, self._sent = log, {}, {}
        names = config.training.trackers
        names = filter(installed, ("tensorboard",)) if names == AUTO else dict.fromkeys(names)
        for name in names:
            self._guarded(name, partial(self._start, name, config, workdir, step, kept, dropped))

    def _start(
        self, name: str, config: ResolvedConfig, workdir: Path, step: int, kept: list[Line], dropped: list[Line]
    ) -> None:
        record = workdir / "tracked.json"
        known = read_json(record) if record.exists() else {}
        again, identity = name in known, known.get(name, uuid.uuid4().hex[:12])
        self._trackers[name] = tracker = TRACKERS[name][1](workdir, config, step, again, identity)
        # To one that has not seen the run before, everything is shown.
        for line in kept:
            if not again or tracker.resent(line, step):
                tracker.write(line)
        write_json(record, known | {name: identity})
        self._sent[name] = {kind_of(line) for line in dropped if again and not tracker.resent(line, step)}

    def write(self, line: Line) -> None:
        """Passes a line of metrics.jsonl on, to those that have not had it."""
        for name, tracker in list(self._trackers.items()):
            if kind_of(line) not in self._sent[name]:
                self._guarded(name, partial(tracker.write, line))

    def close(self) -> None:
        """Ends them all."""
        for name, tracker in list(self._trackers.items()):
            self._guarded(name, tracker.close)

    def _guarded(self, name: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._trackers.pop(name, None)
            said = " ".join(str(error).split())[:200]
            self._log(
                f"warning: {name} failed and is left out from here on; metrics.jsonl has everything: {type(error).__name__}: {said}"
            )
