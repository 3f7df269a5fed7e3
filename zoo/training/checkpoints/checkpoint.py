"""Checkpoints: Orbax's v1 API behind one thin class, with the integrity check that Orbax lacks.

Orbax writes asynchronously and commits by renaming, so a kill leaves either a whole checkpoint or
none. It does not notice damaged bytes: a sha256 of every file is kept beside each checkpoint and
compared before one is trusted.
"""

import hashlib
import json
import math
import shutil
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import jax
from orbax.checkpoint import v1 as ocp

from zoo.errors import ConfigError, DataError
from zoo.files import read_json, write_json
from zoo.training.records.metrics_file import read_json_lines
from zoo.training.runtime.processes import broadcast_from_main, is_main_process

MANIFEST = "manifest.json"


def file_hashes(folder: Path) -> dict[str, str]:
    """Returns the sha256 of every file below `folder`, by relative path, the manifest itself left
    out.
    """
    hashes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            with path.open("rb") as file:
                hashes[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def damage(folder: Path) -> str | None:
    """Says what is wrong with a checkpoint on disk, or None.

    A checkpoint whose manifest was not written before a kill is trusted if its parts are there: the
    commit itself is atomic.
    """
    if not (folder / "state").is_dir():
        return "it holds no state"
    if not (folder / MANIFEST).is_file():
        return None
    try:
        expected = read_json(folder / MANIFEST)
    except ValueError:
        return "its manifest is not JSON"
    found = file_hashes(folder)
    for name, digest in expected.items():
        if name not in found:
            return f"{name} is missing"
        if found[name] != digest:
            return f"{name} has changed since it was written"
    return None


def differences(saved: Any, wanted: Any) -> list[str]:
    """In what two trees of arrays differ, one line for each place."""
    one, other = (
        {
            jax.tree_util.keystr(path, simple=True, separator="/"): (tuple(leaf.shape), str(leaf.dtype))
            for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
        }
        for tree in (saved, wanted)
    )
    lines = [f"{path} is not there" for path in other if path not in one]
    lines += [f"{path} has no place in this model" for path in one if path not in other]
    return lines + [
        f"{path} has shape {one[path][0]} and type {one[path][1]}, expected {other[path][0]} and {other[path][1]}"
        for path in other
        if path in one and one[path] != other[path]
    ]


def without_own(
    saved: dict[str, Any], wanted: dict[str, Any], optional: Collection[str] = (), fresh: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is saved and what is wanted, {"params", "stats"}, without the parts of a model that are
    its own.

    Args:
        saved, wanted: trees of what has a shape and a type.
        optional: parts, by the first name of their paths, that are left out where the two differ in
            them.
        fresh: parts that are left out in any case.
    """
    for name in (*optional, *fresh):
        if name in fresh or any(differences(saved[kind].get(name, {}), wanted[kind].get(name, {})) for kind in wanted):
            saved, wanted = (
                {kind: {part: tree for part, tree in values.items() if part != name} for kind, values in trees.items()}
                for trees in (saved, wanted)
            )
    return saved, wanted


class Checkpoints:
    """The checkpoints of one run: newest `keep` and the one with the lowest evaluation loss.

    Args:
        folder: where they live, one sub-folder per step.
        keep: how many of the newest to keep.
        log: called with one line about anything unusual.
        read_only: look only; a run that is being trained meanwhile is left alone.
        in_place: states stay as they are until `close`, so that they need not be copied; they are
            written as they are, without compression.
    """

    def __init__(
        self,
        folder: Path,
        keep: int,
        log: Callable[[str], None] = print,
        read_only: bool = False,
        in_place: bool = False,
    ):
        self.folder, self._log, self._read_only, self._in_place = folder.resolve(), log, read_only, in_place
        if not read_only:
            self.folder.mkdir(parents=True, exist_ok=True)
        self._unhashed: int | None = None
        self._hashing: threading.Thread | None = None
        policies = ocp.training.preservation_policies
        self._policy = policies.AnyPreservationPolicy(
            [
                policies.LatestN(keep),
                policies.BestN(
                    get_metric_fn=lambda metrics: metrics["eval/loss"],
                    reverse=True,
                    n=1,
                    keep_checkpoints_without_metrics=False,
                ),
            ]
        )
        self._checkpointer = None

    def _open(self) -> Any:
        if self._checkpointer is None:
            self._checkpointer = ocp.training.Checkpointer(
                self.folder, preservation_policy=self._policy, cleanup_tmp_directories=not self._read_only
            )
        return self._checkpointer

    def steps(self) -> list[int]:
        """Returns the steps there are on disk, in order."""
        return sorted(int(path.name) for path in self.folder.iterdir() if path.is_dir() and path.name.isdigit())

    def find(self, step: str) -> int:
        """Turns "latest", "best" or a number into a step that there is.

        Raises:
            ConfigError: if there is none.
        """
        steps = self.steps()
        if step == "best":
            scores = {
                one.step: one.metrics["eval/loss"]
                for one in self._open().checkpoints
                if one.metrics and "eval/loss" in one.metrics
            }
            # One that was saved because the run was stopped is evaluated when the run goes on.
            for _, line in read_json_lines(self.folder.parent / "metrics.jsonl"):
                if (
                    line.get("step") in steps
                    and isinstance(line.get("eval/loss"), float)
                    and math.isfinite(line["eval/loss"])
                ):
                    scores.setdefault(line["step"], line["eval/loss"])
            scored = [(score, number) for number, score in scores.items()]
            if not scored:
                raise ConfigError(f"no checkpoint in {self.folder} was evaluated; take --step latest")
            return min(scored)[1]
        if step == "latest" and steps:
            return steps[-1]
        if step.isdecimal() and int(step) in steps:
            return int(step)
        raise ConfigError(
            f"--step {step}: {self.folder} holds the steps {', '.join(map(str, steps)) or '(none)'}; also: latest, best"
        )

    def restore_latest(self, abstract_state: Any) -> tuple[Any, dict[str, Any]] | None:
        """Restores the newest sound checkpoint onto the devices that `abstract_state` names,
        whatever saved it.

        A damaged one is moved to `quarantine/`, with its reason logged, and the one before it is
        taken.

        Returns:
            (state, what was saved beside it), or None if there is no checkpoint.

        Raises:
            DataError: if there were checkpoints and none is sound.
        """
        # Of several processes the first one looks for all.
        while (step := broadcast_from_main(max(self.steps(), default=-1))) >= 0:
            reason = damage(self.folder / str(step)) if is_main_process() else None
            if not broadcast_from_main(reason is not None):
                try:
                    return self.restore(step, abstract_state)
                except (ConfigError, MemoryError, jax.errors.JaxRuntimeError):
                    raise
                except Exception as error:  # Orbax raises many types for unreadable files
                    if jax.process_count() > 1:
                        raise  # The others may have read it.
                    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                        raise  # The machine's trouble, not the checkpoint's.
                    reason = " ".join(str(error.__cause__ or error).split())[:200]
            self._quarantine(step, reason)
        if self._aside.is_dir() and any(self._aside.iterdir()):
            # A fresh start would cut off the curves of the run that they belong to.
            raise DataError(
                f"{self.folder.parent} has no sound checkpoint: the damaged ones are in {self._aside}; remove that folder "
                "to start again from step 0"
            )
        return None

    @property
    def _aside(self) -> Path:
        return self.folder.parent / "quarantine"

    def restore(self, step: int, abstract_state: Any) -> tuple[Any, dict[str, Any]]:
        """Restores one checkpoint.

        Raises:
            ConfigError: if it holds other types than `abstract_state`.
            ValueError: if it holds no state at all; Orbax raises others.
        """
        checkpointer = self._open()
        metadata = checkpointer.checkpointables_metadata(step)
        saved = jax.tree.leaves(metadata.metadata["state"])
        wanted = jax.tree.leaves(abstract_state)
        for one, other in zip(saved, wanted, strict=False):
            if one.dtype != other.dtype:
                raise ConfigError(
                    f"checkpoint {step} in {self.folder} holds {one.dtype} where {other.dtype} is expected; "
                    "was it written by another version?"
                )
        restored = checkpointer.load_checkpointables(step, {"state": abstract_state})
        if "state" not in restored:
            raise ValueError(f"checkpoint {step} holds no state")
        return restored["state"], dict(metadata.custom_metadata)

    def restore_weights(
        self, step: int, abstract: dict[str, Any], optional: Collection[str] = (), fresh: Collection[str] = ()
    ) -> dict[str, Any]:
        """Restores parts of a state, {"params", "stats"}, whatever else was saved.

        Args:
            step: of the checkpoint.
            abstract: what is wanted.
            optional: parts of the model, by the first name of their paths, that may be left over,
                missing or of another shape; those that are not what is wanted are left out of the
                result.
            fresh: parts that are left out, whatever they are.

        Raises:
            ConfigError: with a line for every array that is missing, left over or of another shape
                or type.
        """
        checkpointer = self._open()
        saved = checkpointer.checkpointables_metadata(step).metadata["state"]
        saved = {name: dict(saved.get(name, {})) for name in abstract}
        saved, abstract = without_own(saved, abstract, optional, fresh)
        if problems := differences(saved, abstract):
            raise ConfigError([f"checkpoint {step}: {problem}" for problem in problems])
        context = ocp.Context()
        context.pytree.loading.partial_load = True
        # What is read lies in buffers before it becomes arrays: as much as the largest needs (which
        # must be below the limit), not all.
        context.memory.read_concurrent_bytes = 1 + max(
            (leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(abstract)), default=0
        )
        with context:
            return checkpointer.load_checkpointables(step, {"state": abstract})["state"]

    def _quarantine(self, step: int, reason: str) -> None:
        self.close()
        if not is_main_process():
            return
        aside = self._aside / str(step)
        aside.parent.mkdir(exist_ok=True)
        if aside.exists():
            shutil.rmtree(aside)
        (self.folder / str(step)).rename(aside)
        self._log(f"warning: checkpoint {step} is damaged ({reason}); moved to {aside}, falling back to the one before")

    def save(self, step: int, state: Any, beside: dict[str, Any], metrics: dict[str, float] | None) -> None:
        """Starts saving; returns when the state is copied, so that its memory may be reused.

        Args:
            step: updates done.
            state: arrays.
            beside: plain JSON values of the same moment: clock, tokens.
            metrics: evaluation at this very step, if there was one.
        """
        self._finish()
        if metrics is not None and not math.isfinite(metrics["eval/loss"]):
            metrics = None  # Orbax's ordering breaks on NaN: it would drop the best checkpoint there is.
        with self._context():
            response = self._open().save_checkpointables_async(
                step, {"state": state}, force=True, metrics=metrics, custom_metadata=json.loads(json.dumps(beside))
            )
        if response is None:
            raise RuntimeError(f"checkpoint {step} was not written: {self.folder} already holds a later one")
        self._unhashed = step

    def _context(self) -> ocp.Context:
        context = ocp.Context()
        if self._in_place:
            context.memory.deepcopy_host_arrays = False
            # Compressed arrays would all be held until the last is done; weights get hardly smaller
            # by it.
            context.array.saving.use_compression = False
        return context

    def poll(self) -> None:
        """Starts the manifest of a checkpoint that has been committed meanwhile; call it now and
        then.
        """
        if self._unhashed is not None and self._hashing is None and not self._checkpointer.is_saving_in_progress():
            self._hashing = threading.Thread(target=self._write_manifest, args=(self._unhashed,), daemon=True)
            self._hashing.start()

    def _write_manifest(self, step: int) -> None:
        folder = self.folder / str(step)
        if folder.is_dir() and is_main_process():
            write_json(folder / MANIFEST, file_hashes(folder))

    def _finish(self) -> None:
        if self._unhashed is None:
            return
        self._checkpointer.wait()
        self.poll()
        self._hashing.join()
        self._unhashed = self._hashing = None

    def close(self) -> None:
        """Waits for everything to be on disk."""
        self._finish()
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None
