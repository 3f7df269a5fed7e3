"""What is measured on a trained run rather than evaluated in it: names, directions, what a run has
to have, and the file that keeps it.

A measure is a metric like any other: `measured/NAME` of the trained run, and where there is one
`measured/NAME@initial` of its initial values. An experiment names it as its metric, on a side of a
contrast, or in `measures`; every run that is done is then measured once, after the last one has
ended or when a report is built, by a process of its own (`zoo.analysis.run_measures`). The run's
folder keeps in `measured.json` what came out, with the step and the parameters that it was computed
from: of others it is not read, and computed again.

A new one takes a line in `MEASURES` and a function of the same name in `zoo.analysis.run_measures`.
"""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.files import read_json

FILE, PREFIX, INITIAL = "measured.json", "measured/", "@initial"


class Measure(NamedTuple):
    """A measure.

    Attributes:
        text: what it is; a measure that is defined anew says so here, so that no older value is
            taken for it.
        more_is_better: of two values the larger is the better one, in the sense that rules of
            superiority have.
        unit: what it counts; empty for ratios.
        dynamics: it is read of dynamics.jsonl, and not of the checkpoint.
        initial: it is also measured at the initial values.
        needs: {path: value} of the fields that a run has to have, an empty mapping where any run
            will do.
    """

    text: str
    more_is_better: bool
    unit: str = ""
    dynamics: bool = False
    initial: bool = True
    needs: Mapping[str, Any] = {}


MEASURES = {
    "residual_growth": Measure(
        "root mean square of the residual stream as it leaves the last layer, over that as it leaves the first",
        False,
        dynamics=True,
    ),
    "gradient_kept": Measure(
        "norm of the gradient of the first layer's attention and feed-forward, over that of the last layer's",
        True,
        dynamics=True,
    ),
    "spikes": Measure(
        "updates whose loss is more than 6 standard deviations above the mean of the 128 before",
        False,
        "spikes",
        dynamics=True,
        initial=False,
    ),
    "near_and_far": Measure(
        "mean cosine of the vectors of positions that are 1 to 4 apart, less that of positions half a row apart or more",
        False,
        needs={"model.position.kind": "learned"},
    ),
    "offset_gap": Measure(
        "loss of held-out rows that begin half-way between neighbouring data.offsets, less that of the same rows where training had them",
        False,
        "nats",
        initial=False,
    ),
    "head_divergence": Measure(
        "Jensen-Shannon divergence of what two heads of a layer attend to, mean over pairs of heads, layers, and queries with two keys or "
        "more, of 8 held-out rows",
        True,
        "nats",
        needs={"model.attention.kind": "softmax"},
    ),
}


def name_of(metric: str) -> str:
    """ "spikes" of "measured/spikes"; empty for what is evaluated."""
    return metric.removeprefix(PREFIX).partition("@")[0] if metric.startswith(PREFIX) else ""


def is_measure(metric: str) -> bool:
    """Whether a metric is a measure that there is."""
    measure = MEASURES.get(name_of(metric))
    return measure is not None and metric in metrics_of(name_of(metric))


def metrics_of(name: str) -> tuple[str, ...]:
    """The metrics that a measure gives."""
    return (PREFIX + name, *([PREFIX + name + INITIAL] if MEASURES[name].initial else []))


def problem(metric: str, flat: Mapping[str, Any]) -> str:
    """Why a run of a flat resolved config will have no such measure; empty if it will."""
    measure = MEASURES[name_of(metric)]
    if measure.dynamics and not flat["training.dynamics_every"]:
        return "it is read of dynamics.jsonl; set training.dynamics_every"
    if measure.dynamics and measure.initial and flat["training.steps"] % flat["training.dynamics_every"]:
        return (
            f"training.dynamics_every={flat['training.dynamics_every']} does not divide training.steps={flat['training.steps']}, so "
            "that nothing is recorded at the end"
        )
    if measure.initial and flat["model.architecture"] not in ("decoder", "encoder"):
        return f"it is that of one stack of layers, and model.architecture is {flat['model.architecture']}"
    if metric.endswith(INITIAL) and flat["training.start_from"]:
        return "its initial values are another run's (training.start_from)"
    if name_of(metric) == "offset_gap" and not halfway(flat["data.offsets"]):
        return "it needs two data.offsets or more, with room between them"
    return "; ".join(
        f"it needs {path}={value}, and this is {flat[path]}"
        for path, value in measure.needs.items()
        if flat[path] != value
    )


def halfway(offsets: Sequence[int]) -> tuple[int, ...]:
    """The positions in the middle between neighbouring offsets."""
    places = sorted(set(offsets))
    return tuple((one + other) // 2 for one, other in itertools.pairwise(places) if other > one + 1)


def basis(folder: Path, status: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What a measure of a run is computed from, and what it means; empty for a run that is not
    done, which has none.
    """
    if status.get("state") != "done":
        return {}
    recorded = folder / "dynamics.jsonl"
    size = {"dynamics_bytes": recorded.stat().st_size} if MEASURES[name].dynamics and recorded.exists() else {}
    return {
        "definition": MEASURES[name].text,
        "step": status.get("step"),
        "parameters_sha256": status.get("parameters_sha256"),
        **size,
    }


def read_measured(folder: Path, status: Mapping[str, Any]) -> dict[str, float | None]:
    """{metric: value} of a run, as far as it was computed from the run as it is now; None for what
    is not finite.
    """
    found: dict[str, float | None] = {}
    for name, entry in _content(folder).items():
        if (
            name in MEASURES
            and isinstance(entry, dict)
            and entry.get("from")
            and entry["from"] == basis(folder, status, name)
        ):
            values = entry.get("values")
            found |= {
                metric: value
                for metric, value in (values if isinstance(values, dict) else {}).items()
                if metric in metrics_of(name)
                and (value is None or (isinstance(value, int | float) and not isinstance(value, bool)))
            }
    return found


def _content(folder: Path) -> dict[str, Any]:
    """measured.json; empty where there is none, or none that can be read: it is computed again."""
    try:
        content = read_json(folder / FILE)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def due(folder: Path, names: Iterable[str]) -> list[str]:
    """The measures that a run's folder lacks; none of a run that is not done."""
    try:
        status = read_json(folder / "status.json")
    except (OSError, ValueError):
        return []
    if not isinstance(status, dict) or status.get("state") != "done":
        return []
    there = {name_of(metric) for metric in read_measured(folder, status)}
    return [name for name in names if name not in there]


def of_sweep(folder: Path) -> tuple[list[str], list[Path]]:
    """(names of the measures that a sweep asks for, its runs' folders); nothing of what is no
    sweep.
    """
    try:
        record = read_json(folder / "experiment.json")
        return (
            [name for name in record.get("measures", []) if name in MEASURES],
            [folder / run["folder"] for run in record["runs"] if isinstance(run["folder"], str)],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [], []


def complete(folder: Path, say: Callable[[str], None]) -> None:
    """Measures what is not measured yet of a sweep's runs that are done.

    In a process of its own: it takes what accelerator there is, and gives it back for the runs that
    may follow.
    """
    names, runs = of_sweep(folder)
    left = {run: found for run in runs if (found := due(run, names))}
    if not left:
        return
    say(
        f"measuring {', '.join(dict.fromkeys(name for found in left.values() for name in found))} of {len(left)} runs ..."
    )
    done = subprocess.run(
        [sys.executable, "-m", "zoo.analysis.run_measures", str(folder), "--quiet"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        for line in lines[-5:] or [
            f"python -m zoo.analysis.run_measures {folder} ended with exit code {done.returncode}"
        ]:
            say(line)
