"""Measures of a trained run: their names, directions, requirements and file.

A measure is a metric that is computed from a finished run instead of during its evaluation:
`measured/NAME` of the trained run and, for most measures, `measured/NAME@initial` of its initial
values. An experiment names it as its metric, on a side of a contrast, or in `measures`. Every
finished run is measured once, after the last run has ended or when a report is built, by a separate
process (`zoo.analysis.run_measures`). `measured.json` in the run's folder keeps the values with the
step and the parameters that they were computed from; values of other parameters are computed again.

A measure that any run may be asked for takes an entry in `MEASURES` and a function of the same name
in `zoo.analysis.measured_run`. Tasks of lm-evaluation-harness are measures by their name,
`harness:TASK[:METRIC]` (`zoo.harness`). One that serves a single claim is a plug-in,
`experiments/measures/NAME.py`, which is loaded when its name is first used.
"""

import functools
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.config import plugins
from zoo.config.fields import TASKS
from zoo.config.kinds import ATTENTION_KINDS, OBJECTIVE_KINDS
from zoo.config.kinds.kind import KindsWithTrait
from zoo.config.shipped import MEASURES as SHIPPED
from zoo.config.shipped import shipped_names
from zoo.data.sources.synthetic import PROBE_DOCUMENTS, SYNTHETIC_TASKS, SyntheticDocuments, parse
from zoo.files import number_in, read_json, read_object_or_empty
from zoo.harness.task_names import TaskMetric

MEASURED_FILE, MEASURE_PREFIX, INITIAL_SUFFIX = "measured.json", "measured/", "@initial"
TASK_DIGEST = "task_sha256"


class Measure(NamedTuple):
    """A measure.

    Attributes:
        definition: in words. A measure that is redefined must change it, so that older values are
            not reused.
        higher_is_better: as rules of superiority understand it.
        unit: empty for ratios.
        dynamics: read from dynamics.jsonl instead of the checkpoint.
        initial: also measured at the initial values.
        needs: {path: value, or names of kinds} of the fields that a run must have.
        task: the synthetic task whose answers it scores; the run's data must have it.
        why_not: flat resolved config -> why such a run lacks it, for what `needs` cannot say; empty
            if it has it.
    """

    definition: str
    higher_is_better: bool
    unit: str = ""
    dynamics: bool = False
    initial: bool = True
    needs: Mapping[str, Any] = {}
    task: str = ""
    why_not: Callable[[Mapping[str, Any]], str] = lambda flat: ""


def _why_no_start(flat: Mapping[str, Any]) -> str:
    if flat["training.start_from"]:
        return ""
    return "it is the loss of the run that training.start_from names, and training.start_from is empty"


def _why_other_rows(flat: Mapping[str, Any]) -> str:
    kinds = (*OBJECTIVE_KINDS.having("causal"), *OBJECTIVE_KINDS.having("masked"))
    if flat["objective.kind"] not in kinds:
        return f"it needs objective.kind={' or '.join(kinds)}, and this run has {flat['objective.kind']}"
    own = [path for path in ("data.isolate_documents", "data.position_offsets") if flat[path]]
    own += ["data.row_format"] if flat["data.row_format"].endswith("pairs") else []
    return f"it reads rows as one segment from position 0, and this run sets {' and '.join(own)}" if own else ""


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
    "pretraining_loss": Measure(
        "last held-out loss of the run that training.start_from names",
        False,
        "nats",
        initial=False,
        why_not=_why_no_start,
    ),
    "head_divergence": Measure(
        "Jensen-Shannon divergence of what two heads of a layer attend to, mean over pairs of heads, layers, and "
        "queries with two keys or more, of 8 held-out rows",
        True,
        "nats",
        needs={"model.attention.kind": ATTENTION_KINDS.having("distribution")},
        why_not=_why_other_rows,
    ),
    **{
        f"probe_{task}": Measure(
            f"share of {PROBE_DOCUMENTS:,} new documents of synthetic:{task} whose first answer is right as a whole",
            True,
            initial=False,
            needs={"objective.kind": OBJECTIVE_KINDS.having("causal")},
            task=task,
        )
        for task in SYNTHETIC_TASKS
    },
}


def find_measure(name: str) -> Measure | None:
    """Returns a measure by its name, or None if there is none; loads the plug-in that comes with zoo
    and defines it. A task of the harness is a measure, whether or not there is one of its name.

    Raises:
        ConfigError: a plug-in of the user has the name of that plug-in, with another text.
    """
    if (task := TaskMetric.parse(name)) is not None:
        return _of_task(task)
    if name not in MEASURES:
        plugins.load_shipped(SHIPPED, name)
    return MEASURES.get(name)


@functools.cache
def _of_task(task: TaskMetric) -> Measure:
    return Measure(
        f"{task.metric} of {task.task}, a task of lm-evaluation-harness; equal choices share a point",
        task.higher_is_better,
        initial=False,
        why_not=lambda flat: _why_no_task(task, flat),
    )


def _why_no_task(task: TaskMetric, flat: Mapping[str, Any]) -> str:
    kind, architecture = flat["objective.kind"], flat["model.architecture"]
    if architecture not in ("decoder", "encoder_decoder") or kind in TASKS:
        return (
            f"the harness asks how probable a text is after another, and objective.kind={kind} of "
            f"model.architecture={architecture} does not tell"
        )
    if kind in (*OBJECTIVE_KINDS.having("spans"), *OBJECTIVE_KINDS.having("denoising")):
        return f"objective.kind={kind} fills blanks, and the harness asks for what follows a text"
    return task.why_not_here()


def known_measures() -> tuple[str, ...]:
    """Returns the names of all measures, with those whose plug-in comes with zoo and is not loaded."""
    return tuple(dict.fromkeys((*MEASURES, *shipped_names(SHIPPED))))


def measure_name(metric: str) -> str:
    """Returns "spikes" for "measured/spikes@initial"; empty for a metric of the evaluation."""
    return metric.removeprefix(MEASURE_PREFIX).partition("@")[0] if metric.startswith(MEASURE_PREFIX) else ""


def is_measure(metric: str) -> bool:
    """Whether the metric is that of a known measure."""
    name = measure_name(metric)
    return find_measure(name) is not None and metric in measure_metrics(name)


def measure_metrics(name: str) -> tuple[str, ...]:
    """Returns the metrics of a measure: of the trained run, and of its initial values."""
    metric = MEASURE_PREFIX + name
    return (metric, metric + INITIAL_SUFFIX) if _known(name).initial else (metric,)


def _known(name: str) -> Measure:
    measure = find_measure(name)
    assert measure is not None, name
    return measure


def why_unavailable(metric: str, flat: Mapping[str, Any]) -> str:
    """Returns why a run with this flat resolved config lacks a measure; empty if it has it."""
    measure = _known(measure_name(metric))
    every, steps = flat["training.dynamics_every"], flat["training.steps"]
    if measure.dynamics and not every:
        return "it is read from dynamics.jsonl; set training.dynamics_every"
    if measure.dynamics and measure.initial and steps % every:
        return (
            f"training.dynamics_every={every} does not divide training.steps={steps}, so nothing is recorded at the end"
        )
    if measure.initial and flat["model.architecture"] not in ("decoder", "encoder"):
        return f"it is defined for a single stack of layers, and model.architecture is {flat['model.architecture']}"
    if metric.endswith(INITIAL_SUFFIX) and flat["training.start_from"]:
        return "its initial values come from another run (training.start_from)"
    if measure.task and (why := _why_no_answers(measure.task, flat)):
        return why
    if why := measure.why_not(flat):
        return why
    accepted = {path: value if isinstance(value, KindsWithTrait) else (value,) for path, value in measure.needs.items()}
    return "; ".join(
        f"it needs {path}={' or '.join(map(str, values))}, and this run has {flat[path]}"
        for path, values in accepted.items()
        if flat[path] not in values
    )


def tasks_in(source: str, mixture: Sequence[str]) -> tuple[SyntheticDocuments, ...]:
    """Returns the synthetic tasks of a `data.source`, or of a `data.mixture` if that is the source."""
    entries = [entry.partition("*")[2].strip() for entry in mixture] if source == "mixture" else [source]
    return tuple(parse(entry.partition(":")[2]) for entry in entries if entry.partition(":")[0] == "synthetic")


def _why_no_answers(name: str, flat: Mapping[str, Any]) -> str:
    """Returns why a run cannot be asked for the answers of a synthetic task; empty if it can."""
    tasks = [task for task in tasks_in(flat["data.source"], flat["data.mixture"]) if task.name == name]
    if not tasks:
        return (
            f"a run learns to answer synthetic:{name} from its data, and data.source={flat['data.source']} has none; "
            f"set it to synthetic:{name}, or to a mixture with it"
        )
    apart = ("bytes", "characters", *(("bpe",) if all(task.answer_is_apart for task in tasks) else ()))
    if (kind := flat["data.tokenizer.kind"]) not in apart:
        return f"its answers need not begin with a token of their own where data.tokenizer.kind is {kind}"
    longest, length = max(task.size for task in tasks), flat["data.sequence_length"]
    return f"its documents have {longest} tokens, and data.sequence_length={length}" if longest > length else ""


def measure_provenance(folder: Path, status: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the inputs of a run's measure and its definition; empty for an unfinished run."""
    if status.get("state") != "done":
        return {}
    recorded = folder / "dynamics.jsonl"
    measure, task = _known(name), TaskMetric.parse(name)
    size = {"dynamics_bytes": recorded.stat().st_size} if measure.dynamics and recorded.exists() else {}
    text = task.contents_sha256() if task else None
    return {
        "definition": measure.definition,
        "step": status.get("step"),
        "parameters_sha256": status.get("parameters_sha256"),
        **size,
        **({TASK_DIGEST: text} if text else {}),
    }


def _same_inputs(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a value was measured on what there is now; a task's file may be elsewhere by now."""
    if TASK_DIGEST not in now:
        recorded = {name: value for name, value in recorded.items() if name != TASK_DIGEST}
    return recorded == now


def read_measured(folder: Path, status: Mapping[str, Any]) -> dict[str, float | None]:
    """Returns {metric: value} of the measures that are up to date; None if not finite."""
    found: dict[str, float | None] = {}
    for name, entry in _content(folder).items():
        if (
            isinstance(entry, dict)
            and isinstance(entry.get("from"), dict)
            and entry["from"]
            and find_measure(name) is not None
            and _same_inputs(entry["from"], measure_provenance(folder, status, name))
        ):
            values = entry.get("values")
            found |= {
                metric: value
                for metric, value in (values if isinstance(values, dict) else {}).items()
                if metric in measure_metrics(name) and number_in(value) is not None
            }
    return found


def _content(folder: Path) -> dict[str, Any]:
    """Returns measured.json; empty if it is missing or damaged, so that it is computed again."""
    return read_object_or_empty(folder / MEASURED_FILE)


def missing_measures(folder: Path, names: Iterable[str]) -> list[str]:
    """Returns the measures that a finished run's folder lacks; none for an unfinished run."""
    status = read_object_or_empty(folder / "status.json")
    if status.get("state") != "done":
        return []
    present = {measure_name(metric) for metric in read_measured(folder, status)}
    return [name for name in names if name not in present]


def requested_measures(sweep: Path) -> tuple[list[str], list[Path]]:
    """Returns (names of the measures that a sweep asks for, folders of its runs); empty if the
    folder holds no sweep. Loads the plug-ins of the sweep if they define one of its measures.

    Raises:
        ConfigError: these plug-ins are not trusted, or damaged.
    """
    try:
        record = read_json(sweep / "experiment.json")
        names = [name for name in record.get("measures", []) if isinstance(name, str)]
        stored = [entry for entry in record.get("plugins", []) if isinstance(entry, str)]
        runs = [sweep / run["folder"] for run in record["runs"] if isinstance(run["folder"], str)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [], []
    if any(find_measure(name) is None for name in names):
        plugins.load_stored(sweep, stored)
    return [name for name in names if find_measure(name) is not None], runs


def compute_missing_measures(sweep: Path, say: Callable[[str], None]) -> None:
    """Computes the measures that finished runs of a sweep still lack.

    Runs in a separate process, which takes the accelerator and releases it for runs that follow.
    """
    names, runs = requested_measures(sweep)
    missing = {run: found for run in runs if (found := missing_measures(run, names))}
    if not missing:
        return
    say(f"measuring {', '.join(dict.fromkeys(itertools.chain(*missing.values())))} of {len(missing)} runs ...")
    process = subprocess.run(
        [sys.executable, "-m", "zoo.analysis.run_measures", str(sweep), "--quiet"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    if process.returncode:
        lines = [line for line in process.stderr.splitlines() if line.strip()]
        for line in lines[-5:] or [
            f"python -m zoo.analysis.run_measures {sweep} ended with exit code {process.returncode}"
        ]:
            say(line)
