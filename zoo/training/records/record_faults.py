"""Faults in the records of a run that reading each file by itself does not show: a config that was
edited afterwards, records that are gone, rows that are missing.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zoo import config as configs
from zoo.config.field_values import checked_value
from zoo.config.fields import BY_PATH
from zoo.config.hyperparameters import is_dropout_rate
from zoo.errors import ConfigError
from zoo.nested import flatten
from zoo.training.records.run_folder import RunFolder

IDENTITY = re.compile(r"[0-9a-f]{16}")
MASKS = "dropout_masks"
"""Entry of meta.json, and of an entry of its "resumed": what the masks of dropout belong to."""
OF_ROWS = "rows"
# What Mamba-2 of several groups normalises.
NORMS, OF_GROUPS, GROUPS = "mamba2_norms", "groups", "model.attention.key_heads"
SHORT_ROWS = "short_rows_by_einsum"
"""Entry of meta.json of a run on a CPU: whether a layer computes attention by `einsum` because its
rows are short (`zoo.layers.platform.ROWS_FROM`). Runs of versions without that rule lack it.
"""


def config_edit(folder: RunFolder) -> str | None:
    """Returns a line if config.json is not that of the run's start, by the identity in meta.json.

    Fields that do not change the result may have changed. A run whose extension was interrupted
    (`zoo.training.records.extension.record_extension`) has the config that it was extended from.
    """
    recorded, flat = folder.meta.get("identity"), flatten(folder.config)
    if not flat or not isinstance(recorded, str) or not IDENTITY.fullmatch(recorded):
        return None
    if recorded in _identities(flat):
        return None
    before, after = flat.get("training.steps"), folder.status.get("steps")
    interrupted = str(folder.status.get("reason")).startswith(f"training.steps grew from {before} to {after} ")
    if interrupted and recorded in _identities(flat | {"training.steps": after}):
        return None
    path = folder.path / "config.json"
    return (
        f"{path} was edited after the run had begun: its identity is {_identities(flat)[0]}, and meta.json has "
        f"{recorded}; undo the edit, and edit a copy outside of {folder.path} for another run"
    )


def _identities(flat: Mapping[str, Any]) -> list[str]:
    """Returns the identity of a stored config as it is, and with the types of its fields, which an
    editor of JSON may have changed (1 for 1.0).
    """
    typed = {path: checked_value(BY_PATH[path], value)[0] if path in BY_PATH else value for path, value in flat.items()}
    return [configs.identity(flat), configs.identity(typed)]


def check_unedited(folder: RunFolder) -> None:
    """Refuses a run whose config.json was edited.

    Raises:
        ConfigError: naming the file and the two identities.
    """
    if line := config_edit(folder):
        raise ConfigError(line)


def lost_records(folder: RunFolder) -> Iterator[str]:
    """Yields a line for each record that a run with checkpoints should have, and that is gone,
    empty, or has gaps; without the run's folder.
    """
    if not folder.meta:
        yield (
            "its meta.json is gone or empty: nothing tells whether its config, data, start and software are those that "
            "it began with"
        )
    path = folder.path / "metrics.jsonl"
    if not path.exists():
        yield "its metrics.jsonl is gone"
    elif not folder.curves.rows:
        yield "its metrics.jsonl has no rows"
    else:
        yield from missing_rows(folder)


def missing_rows(folder: RunFolder) -> Iterator[str]:
    """Yields a line for the gaps in each of the two series of metrics.jsonl, training and evaluation.

    The intervals of a run may differ from one resumption to the next. In a run that was resumed, a gap
    is a distance that is longer than the interval of its config and than both of its neighbours.
    """
    flat, rows = flatten(folder.config), folder.curves.rows
    steady = not folder.meta.get("resumed")
    done = (folder.final_status or {}).get("step", 0)
    # The evaluation that is due at a checkpoint may follow it.
    series = (
        ("training", "train/loss", "log_every", max(folder.newest, done)),
        ("evaluation", "eval/loss", "eval_every", done),
    )
    for what, name, field, end in series:
        every = flat.get(f"training.{field}")
        steps = [int(row["step"]) for row in rows if name in row]
        if type(every) is not int or every < 1 or not steps:
            continue
        gaps = list(_gaps([0, *steps, *([end] if end > steps[-1] else [])], every, steady))
        if gaps:
            shown = ", ".join(f"{before} and {after}" for before, after in gaps[:3])
            more = f" and in {len(gaps) - 3} more places" if len(gaps) > 3 else ""
            yield f"its metrics.jsonl has no {what} rows between steps {shown}{more}"


def _gaps(steps: Sequence[int], every: int, steady: bool) -> Iterator[tuple[int, int]]:
    distances = [after - before for before, after in itertools.pairwise(steps)]
    for index, distance in enumerate(distances):
        beside = distances[max(0, index - 1) : index] + distances[index + 1 : index + 2]
        # The first row is that of step 1, one less than an interval before the second.
        if distance > every and (steady or all(distance > other + (every > 1) for other in beside)):
            yield steps[index], steps[index + 1]


def lost_checkpoint(folder: RunFolder) -> str | None:
    """Returns a line if a run that is done lacks the checkpoint of its end, and has earlier ones."""
    if (done := folder.final_status) is None or not folder.steps or folder.newest >= done["step"]:
        return None
    return (
        f"{folder.path} is done with {done['step']} steps, but its newest checkpoint is that of step {folder.newest}; "
        f"restore {folder.path / 'checkpoints' / str(done['step'])}"
    )


def draws_masks_by_row(flat: Mapping[str, Any]) -> bool:
    """Returns whether a config has dropout whose masks belong to rows (`DropoutKey.rows`)."""
    drops = any(is_dropout_rate(path) and value for path, value in flat.items())
    return drops and flat.get("training.dropout_generator") == "threefry"


def has_norms_of_groups(flat: Mapping[str, Any]) -> bool:
    """Returns whether a config has a Mamba-2 of several groups of heads, each with its own norm."""
    kinds = [path for path, value in flat.items() if path.endswith("attention.kind") and value == "mamba2"]
    groups = [flat.get(f"{path.removesuffix('kind')}key_heads", flat.get(GROUPS)) for path in kinds]
    return any(isinstance(count, int) and count > 1 for count in groups)


def other_norms(folder: RunFolder, config: Mapping[str, Any]) -> str | None:
    """Returns a line if a run was begun by a version whose Mamba-2 normalised the values of all heads
    together, so that its parameters belong to another function.
    """
    if not folder.newest or not folder.meta or folder.meta.get(NORMS) == OF_GROUPS:
        return None
    if not has_norms_of_groups(flatten(config)):
        return None
    return (
        f"the run in {folder.path} was begun by a version whose Mamba-2 normalised the values of all heads together; "
        "now each group of heads has its own norm, which is another function of the same parameters: train it again"
    )


def ignores_length_of_rows(meta: Mapping[str, Any]) -> bool:
    """Returns whether a run computes attention by `rows`, and was begun by a version that chose it for
    rows of any length.
    """
    entries = meta.get("attention_kernels")
    kernels = (
        [str(entry.get("kernel")) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    )
    return SHORT_ROWS not in meta and any(kernel.split()[-1:] == ["rows"] for kernel in kernels)


def other_masks(folder: RunFolder, config: Mapping[str, Any]) -> str | None:
    """Returns a line if a run was begun by a version that drew masks of dropout for a whole
    micro-batch, so that a run that goes on from its checkpoint is not the uninterrupted one.
    """
    records = [folder.meta, *filter(lambda entry: isinstance(entry, dict), folder.meta.get("resumed", []))]
    if not folder.newest or not folder.meta or not draws_masks_by_row(flatten(config)):
        return None
    if any(record.get(MASKS) == OF_ROWS for record in records):
        return None
    return (
        f"the run in {folder.path} was begun by a version that drew the masks of dropout for a whole micro-batch; from "
        f"step {folder.newest} on each row has masks of its own, so it ends as no uninterrupted run does"
    )
