"""Scores of runs of a task on their held-out examples, for `eval.py`."""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

from zoo import data
from zoo.errors import ConfigError
from zoo.training.evaluation.held_out import evaluate
from zoo.training.records.resume_checks import check_same_data
from zoo.training.records.run_folder import RunFolder
from zoo.training.trained_run import TrainedRun, load_trained


def evaluate_tasks(trained: TrainedRun, args: argparse.Namespace) -> int:
    """Scores runs of one task, each on all of its held-out examples; prints the median of several.

    Raises:
        ConfigError: runs of different tasks, or as `evaluate_task`.
    """
    results = [evaluate_task(trained, args.run, args)]
    for folder in args.others:
        other = load_trained(folder, args.step)
        if (kind := other.config.objective.kind) != trained.config.objective.kind:
            raise ConfigError(
                f"{folder} has objective.kind={kind}, and {args.run} {trained.config.objective.kind}: a median of "
                "their scores would mean nothing"
            )
        results.append(evaluate_task(other, folder, args))
        different = [name for name in ("task", "data", "examples", "labels") if results[-1][name] != results[0][name]]
        if different:
            raise ConfigError(
                f"{folder} and {args.run} differ in {', '.join(different)}: a median of their scores would mean nothing"
            )
    names = list(results[0]["scores"])
    medians = {name: median(result["scores"][name] for result in results) for name in names}
    if args.json:
        print(json.dumps(results[0] if len(results) == 1 else {"runs": results, "median": medians}, indent=2))
        return 0
    first = results[0]
    print(f"{first['task']} of {first['examples']:,} held-out examples of {first['data']}")
    width = max(len(f"{result['run']} at step {result['step']}") for result in results)
    print(" " * width, *(f"{name:>16s}" for name in names))
    for result in results:
        print(
            f"{result['run']} at step {result['step']}".ljust(width),
            *(f"{result['scores'][name]:16.4f}" for name in names),
        )
    if len(results) > 1:
        print("median".ljust(width), *(f"{medians[name]:16.4f}" for name in names))
    return 0


def evaluate_task(trained: TrainedRun, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Scores a task's held-out examples, each exactly once, with the labels of the run.

    Raises:
        ConfigError: flags that apply only to text; examples that have changed since the run.
    """
    config = trained.config
    only_for_text = {"--lengths": args.lengths, "--batches": args.batches, "--text": args.text, "--sample": args.sample}
    if given := [flag for flag, value in only_for_text.items() if value]:
        raise ConfigError(
            f"{', '.join(given)}: only for text; {folder} is scored on every held-out example of its task, "
            f"objective.kind={config.objective.kind}"
        )
    dataset = data.load(config)
    check_same_data(RunFolder(folder), dataset)
    batches = dataset.evaluation_batches(multiple_of=trained.program.data_parallel_size)
    scores = evaluate(
        trained.program,
        trained.params,
        trained.stats,
        batches,
        trained.program.constants(config.seed),
        measure=dataset.measure,
    )
    return {
        "run": str(folder),
        "step": trained.step,
        "task": config.objective.kind,
        "data": dataset.description,
        "examples": len(dataset.examples.held_out),
        "labels": list(dataset.labels),
        "scores": scores,
    }
