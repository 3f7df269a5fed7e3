"""Checkpoints: Orbax's v1 API behind one thin class that also checks integrity.

Orbax writes asynchronously and commits by renaming, so a kill leaves either a whole checkpoint or
none. It does not notice damaged bytes; `zoo.training.checkpoints.integrity` does.
"""

import contextlib
import json
import math
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
from orbax.checkpoint import v1 as ocp

from zoo.errors import ConfigError, DataError, one_line
from zoo.training.checkpoints.failed_saves import drop_logged_errors, remove_unfinished
from zoo.training.checkpoints.integrity import find_damage, has_manifest, write_manifest
from zoo.training.checkpoints.tree_differences import (
    NOTHING_REPLACEABLE,
    ReplaceableParts,
    tree_differences,
    type_differences,
    without_replaceable,
)
from zoo.training.records.metrics_file import read_lines_with_step
from zoo.training.records.run_folder import checkpoint_steps
from zoo.training.runtime.processes import broadcast_from_main, is_main_process


class Checkpoints:
    """The checkpoints of one run: the newest `keep` and the one with the lowest evaluation loss.

    Args:
        folder: where they are stored, one sub-folder per step.
        keep: number of newest checkpoints to keep.
        log: called with one line about anything unusual.
        read_only: changes nothing on disk, so that a run may be read while it is being trained.
        zero_copy: the caller does not modify a saved state until `close`, so it is not copied; it
            is written uncompressed.
    """

    def __init__(
        self,
        folder: Path,
        keep: int,
        log: Callable[[str], None] = print,
        read_only: bool = False,
        zero_copy: bool = False,
    ):
        self.folder, self._log, self._read_only, self._zero_copy = folder.resolve(), log, read_only, zero_copy
        if not read_only:
            self.folder.mkdir(parents=True, exist_ok=True)
        self._evaluated_later: dict[int, float] | None = None
        self._unhashed: int | None = None
        self._hashing: threading.Thread | None = None
        self._manifest_error: OSError | None = None
        policies = ocp.training.preservation_policies
        self._policy = policies.AnyPreservationPolicy([policies.LatestN(keep), _LowestLoss(self._losses)])
        self._checkpointer = None

    def _open(self) -> Any:
        if self._checkpointer is None:
            drop_logged_errors()
            self._checkpointer = ocp.training.Checkpointer(
                self.folder, preservation_policy=self._policy, cleanup_tmp_directories=not self._read_only
            )
        return self._checkpointer

    def steps(self) -> list[int]:
        """Returns the steps of the checkpoints on disk, in ascending order."""
        return checkpoint_steps(self.folder)

    def resolve_step(self, step: str) -> int:
        """Returns the step that "latest", "best" or a number stands for.

        Raises:
            ConfigError: there is no such checkpoint.
        """
        steps = self.steps()
        if not steps:
            raise ConfigError(f"{self.folder.parent} has no checkpoints yet")
        if step == "best":
            return self._best_step(steps)
        if step == "latest":
            return steps[-1]
        if step.isdecimal() and int(step) in steps:
            return int(step)
        raise ConfigError(
            f"--step {step}: {self.folder} holds the steps {', '.join(map(str, steps))}; also: latest, best"
        )

    def _best_step(self, steps: list[int]) -> int:
        scored = {number: loss for number, loss in self._losses(self._open().checkpoints).items() if number in steps}
        if not scored:
            raise ConfigError(f"no checkpoint in {self.folder} was evaluated; take --step latest")
        return _lowest(scored)

    def _losses(self, checkpoints: Sequence[Any]) -> dict[int, float]:
        """Returns the evaluation loss of each checkpoint that has one, by step."""
        found = {
            one.step: one.metrics["eval/loss"] for one in checkpoints if one.metrics and "eval/loss" in one.metrics
        }
        if len(found) < len(checkpoints):
            if self._evaluated_later is None:
                self._evaluated_later = self._read_losses()
            steps = {one.step for one in checkpoints}
            found = {step: loss for step, loss in self._evaluated_later.items() if step in steps} | found
        return found

    def _read_losses(self) -> dict[int, float]:
        """Returns the losses of metrics.jsonl, by step.

        A checkpoint that was saved because the run was stopped is evaluated when the run resumes,
        before the next one is saved; others have their losses.
        """
        found: dict[int, float] = {}
        for _, line in read_lines_with_step(self.folder.parent / "metrics.jsonl"):
            loss = line.get("eval/loss")
            if isinstance(loss, float) and math.isfinite(loss):
                found.setdefault(line["step"], loss)
        return found

    def restore_latest(self, abstract_state: Any) -> tuple[Any, dict[str, Any]] | None:
        """Restores the newest sound checkpoint onto the devices that `abstract_state` names.

        A damaged checkpoint is moved to `quarantine/`, with its reason logged, and the one before
        it is tried. One without a manifest gets it, once it could be restored. The checkpoint may
        have been saved on other devices.

        Returns:
            (state, the metadata saved with it), or None if there is no checkpoint.

        Raises:
            DataError: there were checkpoints and none is sound.
        """
        # Of several processes the main one decides for all.
        while (step := broadcast_from_main(max(self.steps(), default=-1))) >= 0:
            reason = find_damage(self.folder / str(step)) if is_main_process() else None
            if not broadcast_from_main(reason is not None):
                try:
                    restored = self.restore(step, abstract_state)
                    self._add_manifest(step)
                    return restored
                except (ConfigError, MemoryError, jax.errors.JaxRuntimeError):
                    raise
                except Exception as error:  # Orbax raises many types for unreadable files.
                    if jax.process_count() > 1:
                        raise  # The other processes may have read it.
                    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                        raise  # A problem of the machine, not of the checkpoint.
                    reason = one_line(error.__cause__ or error)
            self._quarantine(step, reason)
        if self._quarantine_folder.is_dir() and any(self._quarantine_folder.iterdir()):
            # A fresh start would truncate the curves of the run that the checkpoints belong to.
            raise DataError(
                f"{self.folder.parent} has no sound checkpoint: the damaged ones are in {self._quarantine_folder}; "
                "remove that folder to start again from step 0"
            )
        return None

    @property
    def _quarantine_folder(self) -> Path:
        return self.folder.parent / "quarantine"

    def _add_manifest(self, step: int) -> None:
        """Writes the manifest of a checkpoint that was restored and has none."""
        folder = self.folder / str(step)
        if is_main_process() and not self._read_only and not has_manifest(folder):
            write_manifest(folder)
            self._log(
                f"checkpoint {step} had no manifest, because the run was killed before it was written; the checkpoint "
                "could be restored, and its manifest is written now"
            )

    def restore(self, step: int, abstract_state: Any) -> tuple[Any, dict[str, Any]]:
        """Restores one checkpoint; returns (state, the metadata saved with it).

        Raises:
            ConfigError: it holds other types than `abstract_state`.
            ValueError: it holds no state at all, or that of another step; Orbax raises others.
        """
        checkpointer = self._open()
        contents = checkpointer.checkpointables_metadata(step)
        if found := type_differences(contents.metadata["state"], abstract_state):
            path, one, other = found[0]
            raise ConfigError(
                f"checkpoint {step} in {self.folder} holds {one} in {path}, where {other} is expected; "
                "was it written by another version?"
            )
        restored = checkpointer.load_checkpointables(step, {"state": abstract_state})
        if "state" not in restored:
            raise ValueError(f"checkpoint {step} holds no state")
        _check_step(step, restored["state"].get("step", step))
        return restored["state"], dict(contents.custom_metadata)

    def restore_weights(
        self, step: int, abstract: dict[str, Any], replaceable: ReplaceableParts = NOTHING_REPLACEABLE
    ) -> dict[str, Any]:
        """Restores the parts {"params", "stats"} of a state and ignores the others.

        Args:
            step: number of the checkpoint.
            abstract: shapes, types and shardings to restore.
            replaceable: parts of the model that may be missing, unexpected or of another shape;
                parts that are not taken over are missing in the result.

        Raises:
            ConfigError: one line for every array that is missing, unexpected or of another shape or
                type.
            ValueError: it is the checkpoint of another step.
        """
        checkpointer = self._open()
        saved = checkpointer.checkpointables_metadata(step).metadata["state"]
        number = {"step": 0} if "step" in saved else {}
        saved = {name: dict(saved.get(name, {})) for name in abstract}
        saved, abstract = without_replaceable(saved, abstract, replaceable)
        if problems := tree_differences(saved, abstract):
            raise ConfigError([f"checkpoint {step}: {problem}" for problem in problems])
        context = ocp.Context()
        context.pytree.loading.partial_load = True
        # Limits the buffers that bytes pass through to what the largest array needs (which must be
        # below the limit), instead of holding all arrays twice.
        context.memory.read_concurrent_bytes = 1 + max(
            (leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(abstract)), default=0
        )
        with context:
            loaded = checkpointer.load_checkpointables(step, {"state": abstract | number})["state"]
        _check_step(step, loaded.pop("step", step))
        return loaded

    def _quarantine(self, step: int, reason: str) -> None:
        self.close()
        if not is_main_process():
            return
        target = self._quarantine_folder / str(step)
        target.parent.mkdir(exist_ok=True)
        if target.exists():
            shutil.rmtree(target)
        (self.folder / str(step)).rename(target)
        self._log(
            f"warning: checkpoint {step} is damaged ({reason}); moved to {target}, falling back to the one before"
        )

    def save(self, step: int, state: Any, metadata: dict[str, Any], metrics: dict[str, float] | None) -> None:
        """Starts saving; returns when the state is copied, so that its memory may be reused.

        Args:
            step: updates done.
            state: nested dict of arrays.
            metadata: plain JSON values that belong to the state, such as clock and tokens.
            metrics: results of the evaluation at this very step, if there was one.
        """
        self._finish()
        if metrics is not None and not math.isfinite(metrics["eval/loss"]):
            metrics = None  # Orbax's ordering breaks on NaN: it would drop the best checkpoint.
        metadata = json.loads(json.dumps(metadata))
        with self._context(), self._cleaning_up():
            response = self._open().save_checkpointables_async(
                step, {"state": state}, force=True, metrics=metrics, custom_metadata=metadata
            )
        if response is None:
            raise RuntimeError(f"checkpoint {step} was not written: {self.folder} already holds a later one")
        self._unhashed = step

    def _context(self) -> ocp.Context:
        context = ocp.Context()
        if self._zero_copy:
            context.memory.deepcopy_host_arrays = False
            # All compressed arrays would be held until the last one is done, and compression hardly
            # shrinks weights.
            context.array.saving.use_compression = False
        return context

    def poll(self) -> None:
        """Starts the manifest of a checkpoint once it is committed; to be called regularly."""
        if self._unhashed is not None and self._hashing is None and not self._checkpointer.is_saving_in_progress():
            if jax.process_count() == 1 and not (self.folder / str(self._unhashed)).is_dir():
                self._wait()  # Raises what has gone wrong, now and not at the next save.
            self._hashing = threading.Thread(target=self._write_manifest, args=(self._unhashed,), daemon=True)
            self._hashing.start()

    def _write_manifest(self, step: int) -> None:
        folder = self.folder / str(step)
        if folder.is_dir() and is_main_process():
            try:
                write_manifest(folder)
            except OSError as error:
                self._manifest_error = error

    def _finish(self) -> None:
        if self._unhashed is None:
            return
        self._wait()
        self.poll()
        self._hashing.join()
        self._unhashed = self._hashing = None
        error, self._manifest_error = self._manifest_error, None
        if error is not None:
            raise error

    def _wait(self) -> None:
        with self._cleaning_up():
            self._checkpointer.wait()

    @contextlib.contextmanager
    def _cleaning_up(self) -> Iterator[None]:
        """Removes the files of a failed save, which would keep a disk full."""
        try:
            yield
        except Exception:
            checkpointer, self._checkpointer, self._unhashed = self._checkpointer, None, None
            with contextlib.suppress(Exception):  # It raises the same error again.
                checkpointer.close()
            if is_main_process():
                remove_unfinished(self.folder)
            raise

    def close(self) -> None:
        """Waits until everything is on disk."""
        self._finish()
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None


class _LowestLoss:
    """Preserves the checkpoint with the lowest evaluation loss.

    Args:
        losses: returns those of checkpoints, by step.
    """

    def __init__(self, losses: Callable[[Sequence[Any]], dict[int, float]]):
        self._losses = losses

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        """Returns which of the checkpoints stay, as Orbax's policies do."""
        del context
        losses = self._losses(checkpoints)
        return [bool(losses) and one.step == _lowest(losses) for one in checkpoints]


def _lowest(losses: dict[int, float]) -> int:
    """Returns the step with the lowest loss, the first one of equals."""
    return min((loss, step) for step, loss in losses.items())[1]


def _check_step(name: int, step: Any) -> None:
    """Checks that the folder of a checkpoint is named after the step in its state.

    Raises:
        ValueError: it is not, as after its folder was copied or renamed.
    """
    if int(step) != name:
        raise ValueError(f"it holds the state of step {int(step)}")
