"""Floors of archived sweeps: what counts of words and n-grams score on the data of their runs.

Archives that were written before floors were computed do not have them. They are counted once, from
the configs in the experiment file and the data on this machine, and kept in result.json.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from publication.archived_sweep import ArchivedSweep
from zoo.errors import ConfigError, DataError
from zoo.lab.floors.record import RunFloors, floors_record
from zoo.lab.launch.preparation import load_data
from zoo.lab.planning.plan import make_plan

_OTHER_TEXT = ", of another text than the archived runs have read"


def with_floors(archived: ArchivedSweep, say: Callable[[str], None]) -> ArchivedSweep:
    """Returns an archived sweep with the floors of its arms.

    Those that the archive has are kept. Where they cannot be counted, the sweep is returned with a
    line in `missing` that says why.

    Args:
        archived: the sweep.
        say: is called with a line if the count takes long.
    """
    if archived.sweep.floors is not None:
        return archived
    if archived.experiment is None or archived.sweep.corpus:
        return archived._replace(missing=[*archived.missing, "floors not known: no experiment file with its data"])
    try:
        found = _count(archived, say)
    except (ConfigError, DataError) as error:
        return archived._replace(missing=[*archived.missing, f"floors not known: {error.problems[0]}"])
    notes = {f"floors not known: {floors.note}" for floors in found.values() if not floors.scores}
    notes |= {floors.note for floors in found.values() if floors.note.endswith(_OTHER_TEXT)}
    missing = [*archived.missing, *sorted(notes)]
    labels = {arm.name: arm.label for arm in archived.sweep.arms}
    records = {labels[name]: floors_record(floors) for name, floors in found.items()}
    arms = [arm | {"floors": records[arm["name"]]} for arm in archived.result["arms"]]
    # A floor that another machine may know is asked for again.
    kept = archived.result if any(floors.waits for floors in found.values()) else archived.result | {"arms": arms}
    return archived._replace(sweep=replace(archived.sweep, floors=found), result=kept, missing=missing)


def _count(archived: ArchivedSweep, say: Callable[[str], None]) -> dict[str, RunFloors]:
    # Imported here because it needs JAX.
    from zoo.lab.floors.run_floors import run_floors

    experiment = replace(archived.experiment, seeds=archived.experiment.seeds[:1], looks={})
    plan = make_plan(experiment)
    data: Mapping[str, Any] = load_data(plan, None)
    found = {}
    for run in plan.runs:
        dataset = data.get(run.folder)
        floors = run_floors(run.config, dataset, say)
        read = {dataset.summary()["fingerprint"]} if dataset is not None else set()
        if floors.scores and archived.result.get("data") and not read <= set(archived.result["data"]):
            floors = replace(floors, note=floors.note + _OTHER_TEXT)
        found[run.arm.name] = floors
    if changed := [arm.label for arm in archived.sweep.arms if arm.name not in found]:
        raise ConfigError(f"the experiment file has no arm {changed[0]} any more")
    return {arm.name: found[arm.name] for arm in archived.sweep.arms}
