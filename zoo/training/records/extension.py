"""Training a run longer than it was planned: whether that is possible, and how it is recorded."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo import config as configs
from zoo.config import ResolvedConfig
from zoo.config.kinds.schedule_kinds import horizon_free_updates, tail_start
from zoo.files import write_json
from zoo.nested import flatten
from zoo.training.records.run_folder import RunFolder

# The way to continue from a run that cannot be extended.
NEW_RUN = "a new run whose training.start_from names this folder goes on from its parameters, with a new optimizer"


@dataclass(frozen=True)
class Extension:
    """A growth of `training.steps` from `before` to `after`, when `step` updates had been done."""

    before: int
    after: int
    step: int

    def __str__(self) -> str:
        return f"training.steps grew from {self.before} to {self.after} at step {self.step}"


def find_extension(folder: RunFolder, before: ResolvedConfig, now: ResolvedConfig) -> Extension | None:
    """Returns how `training.steps` of a run grows; None if it does not.

    Args:
        folder: the run's folder.
        before: its config so far.
        now: the config that it is to be continued with.
    """
    old, new = before.training.steps, now.training.steps
    return Extension(old, new, folder.newest) if new > old else None


def extension_obstacle(folder: RunFolder, before: ResolvedConfig, extension: Extension) -> str | None:
    """Returns why the run in a folder cannot be trained longer, or None if it can.

    It can if all updates that it has done would have been the same with the larger
    `training.steps`, on which only learning rate, weight decay, the decay of the first moment and the
    average of the last updates depend.
    """
    meta, flat = folder.meta, flatten(before)
    schedule, unchanged = flat["schedule.kind"], horizon_free_updates(flat)
    if made := next((word for word in ("imported", "averaged") if word in meta), None):
        reason = f"its parameters were {made}, so there is no state of an optimizer"
    elif flat["optimizer.weight_decay_schedule"] == "linear":
        reason = "its weight decay falls over all steps (optimizer.weight_decay_schedule=linear)"
    elif extension.step > (constant := flat["training.steps"] - _momentum_cooldown(flat)):
        reason = f"the decay of its first moment falls after update {constant} (optimizer.momentum_cooldown)"
    elif flat["optimizer.tail_average"] and extension.step > tail_start(flat):
        reason = (
            f"the average of its last updates began after update {tail_start(flat)} "
            f"(optimizer.tail_average={flat['optimizer.tail_average']})"
        )
    elif extension.step <= unchanged:
        return None
    elif unchanged:
        reason = (
            f"its learning rate decays from update {unchanged + 1} on (schedule.kind={schedule}), and its newest "
            f"checkpoint is that of step {extension.step}"
        )
    else:
        reason = f"its learning rates so far depend on the number of steps (schedule.kind={schedule})"
    return f"training.steps={extension.before} cannot grow to {extension.after}: {reason}; {NEW_RUN}"


def _momentum_cooldown(flat: Mapping[str, Any]) -> int:
    """Returns the longest `momentum_cooldown` of the optimizer and its groups."""
    return max(value for path, value in flat.items() if path.endswith(".momentum_cooldown"))


def record_extension(path: Path, meta: Mapping[str, Any], now: ResolvedConfig, extension: Extension) -> dict[str, Any]:
    """Records in status.json and meta.json that a run is not done yet and will be trained longer.

    To be called before the new config.json is written: after a kill in between, the extension is
    found again.

    Args:
        path: where the run's records are written.
        meta: content of meta.json.
        now: the config with the larger `training.steps`.
        extension: how it grows.

    Returns:
        The new content of meta.json.
    """
    status = {"state": "preempted", "step": extension.step, "steps": extension.after, "reason": str(extension)}
    write_json(path / "status.json", status)
    entry = {"from": extension.before, "to": extension.after, "step": extension.step}
    recorded = [entry for entry in _entries(meta) if _parse(entry)]
    if extension.step and entry not in recorded:
        recorded.append(entry)
    meta = {**meta, "identity": configs.identity(now), "extensions": recorded}
    write_json(path / "meta.json", meta)
    return meta


def recorded_extensions(meta: Mapping[str, Any]) -> list[Extension]:
    """Returns the extensions that a run's meta.json records."""
    return [extension for entry in _entries(meta) if (extension := _parse(entry))]


def _entries(meta: Mapping[str, Any]) -> list[Any]:
    entries = meta.get("extensions")
    return entries if isinstance(entries, list) else []


def _parse(entry: Any) -> Extension | None:
    numbers = [entry.get(key) for key in ("from", "to", "step")] if isinstance(entry, dict) else [None]
    return Extension(*numbers) if all(type(number) is int for number in numbers) else None
