"""Records that are gone from the folder of a run that has been trained: what is refused then."""

from collections.abc import Callable
from pathlib import Path

from zoo import config as configs
from zoo.config import ResolvedConfig
from zoo.errors import ConfigError
from zoo.files import is_step, write_json
from zoo.training.records.checkpoint_steps import checkpoint_steps
from zoo.training.records.metrics_file import read_lines_with_step
from zoo.training.records.record_reader import read_meta, read_record


def restore_config(workdir: Path, config: ResolvedConfig, log: Callable[[str], None]) -> None:
    """Writes the config.json of a run again whose meta.json shows that `config` is its config.

    Raises:
        ConfigError: config.json is gone from a run with checkpoints, and it is another run, or
            that cannot be determined.
    """
    path, identity = workdir / "config.json", configs.identity(config)
    if path.exists() or not checkpoint_steps(workdir / "checkpoints"):
        return
    recorded = read_meta(workdir).get("identity")
    if recorded != identity:
        known = f"by its meta.json it is another run (identity {recorded}, not {identity})"
        raise ConfigError(
            f"--workdir {workdir} has checkpoints, but its config.json is gone, and "
            f"{known if recorded else 'nothing else tells whether this is the same run'}; restore config.json, or take "
            "another --workdir"
        )
    write_json(path, configs.to_plain(config))
    log(f"{path} was gone; by the identity in meta.json this is the same run, and it is written again")


def check_curves(workdir: Path) -> None:
    """Checks that a run with checkpoints has its metrics.jsonl.

    Raises:
        ConfigError: it has none.
    """
    path, newest = workdir / "metrics.jsonl", max(checkpoint_steps(workdir / "checkpoints"), default=0)
    if newest and not path.exists():
        raise ConfigError(
            f"--workdir {workdir} has a checkpoint of step {newest}, but its metrics.jsonl is gone; restore it, or "
            f"create an empty {path} to go on with curves that begin at step {newest}"
        )


def check_checkpoints(workdir: Path) -> None:
    """Checks that a run that had checkpoints has one: without, it would start again and cut its
    curves.

    Damaged checkpoints that were set aside are reported when the state is restored.

    Raises:
        ConfigError: all are gone.
    """
    if checkpoint_steps(workdir / "checkpoints") or (workdir / "quarantine").exists():
        return
    status, meta = read_record(workdir / "status.json"), read_meta(workdir)
    newest = max((values["step"] for _, values in read_lines_with_step(workdir / "metrics.jsonl")), default=0)
    step = status.get("step") if is_step(status.get("step")) else 0
    if any(
        (
            status.get("saved"),
            status.get("state") == "running" and step,
            meta.get("resumed"),
            # The second save of a run waits until the first is on disk.
            newest > 2 * (_checkpoint_every(workdir) or newest),
        )
    ):
        raise ConfigError(
            f"--workdir {workdir} was trained to step {max(newest, step)}, but its checkpoints are gone; restore "
            f"{workdir / 'checkpoints'}, or remove or rename {workdir} to start again from step 0"
        )


def _checkpoint_every(workdir: Path) -> int:
    """Returns the interval of saves with which the run in a folder was trained; 0 if unknown."""
    training = read_record(workdir / "config.json", training=dict).get("training", {})
    return training["checkpoint_every"] if is_step(training.get("checkpoint_every")) else 0


def missing_from_done(workdir: Path) -> list[str]:
    """Returns a line for each record that is gone from a run that is done."""
    return [
        f"warning: {workdir} is done, but {what} gone"
        for what, present in (
            ("its metrics.jsonl is", (workdir / "metrics.jsonl").exists()),
            ("its checkpoints are", bool(checkpoint_steps(workdir / "checkpoints"))),
        )
        if not present
    ]
