"""Caveats of a comparison of runs that were picked by hand.

`zoo run` refuses unfair arms before they are trained. Existing runs are compared, with a warning for
each difference.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zoo import config as configs
from zoo.data.pipeline.batch_stages import sum_before
from zoo.data.pipeline.evaluation_fingerprint import evaluation_fingerprint
from zoo.errors import ConfigError, DataError
from zoo.lab.planning.arm import SIZE_TOLERANCE
from zoo.lab.planning.evaluations import (
    fingerprint_differences,
    generator_differences,
    scored_text,
    several_fields,
    values_by_arm,
    with_equal_texts,
)
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import Arm, as_dict, as_text
from zoo.lab.results.token_caveats import token_caveats
from zoo.nested import flatten
from zoo.training.records.ancestry import inherited_tokens
from zoo.training.records.run_folder import read_json_object


def comparison_caveats(arms: list[Arm], runs: list[RunRecord], metric: str) -> list[str]:
    """Returns a line for each difference of the arms besides those in their names.

    Args:
        arms: the arms.
        runs: their runs; the first of an arm stands for all.
        metric: what is compared.
    """
    first = {arm.label: next(run for run in runs if run.arm == arm.name) for arm in arms}
    lines = _evaluation_caveats(first, metric) if metric.startswith("eval/") else []
    settings = {label: run.config for label, run in first.items()}
    lines += [line] if (line := generator_differences(settings, metric)) else []
    for words, value in _SIZES.items():
        sizes = {label: size for label, run in first.items() if (size := value(run))}
        if len(sizes) > 1 and max(sizes.values()) > (1 + SIZE_TOLERANCE) * min(sizes.values()):
            lines.append(
                f"arms differ in {words}: {_grouped({label: f'{size:,.0f}' for label, size in sizes.items()})}"
            )
    for words, value in _CONDITIONS.items():
        found = {label: value(run) for label, run in first.items()}
        if len({text for text in found.values() if text}) > 1:
            lines.append(
                f"arms differ in {words}: {_grouped({k: text or 'not recorded' for k, text in found.items()})}"
            )
    lines += token_caveats(runs)
    (one, reference), *others = settings.items()
    return lines + [line for other, its in others if (line := several_fields(one, reference, other, its))]


def _evaluation_caveats(first: Mapping[str, RunRecord], metric: str) -> list[str]:
    prints, unknown = {}, []
    for label, run in first.items():
        try:
            prints[label] = evaluation_fingerprint(_resolved(run.config))
        except (ConfigError, DataError, KeyError, TypeError, ValueError) as error:
            unknown.append(f"{run.folder}: what its evaluation scores cannot be told from config.json ({error})")
    if not prints:
        return unknown
    prints = with_equal_texts(prints, lambda label: _contents(first[label]))
    return [*fingerprint_differences(prints, metric).values(), *unknown]


def _contents(run: RunRecord) -> tuple[Any, Any] | None:
    """Returns what `with_equal_texts` asks for, as the run has recorded it."""
    record = as_dict(run.meta.get("data"))
    source, tokenizer = as_text(record.get("fingerprint")), _tokenizer_fingerprint(run)
    if not source or not tokenizer:
        return None
    held_out = as_text(as_dict(record.get("held_out")).get("fingerprint"))
    return scored_text(flatten(_resolved(run.config)), source, held_out), tokenizer


def _resolved(config: Mapping[str, Any]) -> configs.ResolvedConfig:
    """Returns a stored config with the fields that its version of the laboratory lacked."""
    flat = flatten(configs.default()) | flatten(config)
    return configs.resolve(configs.from_flat(flat), vocab_size=None)


def _grouped(values: Mapping[str, str]) -> str:
    sides: dict[str, list[str]] = {}
    for label, value in values.items():
        sides.setdefault(value, []).append(label)
    return values_by_arm(sides)


def _tokens(run: RunRecord) -> float:
    flat = flatten(run.config)
    try:
        stages = flat.get("data.batch_stages", ())
        own = sum_before(stages, flat["training.steps"], flat["data.batch_size"]) * flat["data.sequence_length"]
        return own + inherited_tokens(run.meta)
    except (KeyError, TypeError, ValueError):
        return 0


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


_SIZES: dict[str, Callable[[RunRecord], float]] = {
    "tokens of training": _tokens,
    "parameters": lambda run: _number(as_dict(run.meta.get("parameters")).get("total")),
    "FLOPs per token": lambda run: _number(run.meta.get("flops_per_token")),
}


def _tokenizer_fingerprint(run: RunRecord) -> str:
    return as_text(as_dict(as_dict(run.meta.get("data")).get("tokenizer")).get("fingerprint"))[:12]


def _held_out_text(run: RunRecord) -> str:
    return as_text(as_dict(as_dict(run.meta.get("data")).get("held_out")).get("fingerprint"))[:12]


def _precision(run: RunRecord) -> str:
    return as_text(flatten(run.config).get("model.dtype"))


def _kernels(run: RunRecord) -> str:
    entries = run.meta.get("attention_kernels")
    kernels = [as_text(as_dict(entry).get("kernel")) for entry in entries] if isinstance(entries, list) else []
    return ", ".join(dict.fromkeys(filter(None, kernels)))


def _tuning(run: RunRecord) -> str:
    """Returns which field was tuned for this run's arm, from the sweep that it is part of."""
    tuning = as_dict(read_json_object(Path(run.folder).parent / "experiment.json", []).get("tuning"))
    return f"{as_text(tuning.get('field'))} tuned" if tuning.get("chosen") else "not tuned"


_CONDITIONS: dict[str, Callable[[RunRecord], str]] = {
    "the content of data.held_out": _held_out_text,
    "their tokenizer": _tokenizer_fingerprint,
    "precision": _precision,
    "attention kernels": _kernels,
    "tuning": _tuning,
}
