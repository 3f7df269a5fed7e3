"""`zoo probe`: how often a run answers generated questions right."""

import argparse
import json
from pathlib import Path
from typing import Any

from zoo.arguments import at_least
from zoo.errors import ConfigError

DESCRIPTION = """Asks trained decoders for the answers of synthetic tasks (copying, associative recall, induction,
needle, parity, permutations, addition), on newly generated documents, and prints the share of documents whose
answer is entirely right. A run can only be asked tasks that it was trained on; the default is every synthetic task
of its data (docs/probes.md)."""
EXAMPLES = """examples:
  zoo train --config=configs/gpt2.py:tiny --config.data.source=synthetic:recall,length=8 --workdir=runs/recall
  zoo probe runs/recall
  zoo probe runs/recall runs/other --task recall,length=4 --task recall,length=12"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "probe",
        help="ask a run for the answers of synthetic tasks: recall, copying, induction ...",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", type=Path, help="folders of runs")
    add(
        "--task",
        action="append",
        default=[],
        metavar="TASK,length=N,symbols=N",
        help="documents to ask about (default: the synthetic tasks of the run's data); may be repeated",
    )
    add(
        "--documents",
        type=at_least(2, int),
        default=1024,
        metavar="N",
        help="documents for each task (default: %(default)s)",
    )
    add("--step", default="latest", help="checkpoint: latest, best, or a step (default: %(default)s)")
    add("--json", action="store_true", help="print one JSON object for each run and task")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Probes and prints; returns the exit code."""
    from zoo.data.sources.synthetic import parse

    given = [parse(task, "--task") for task in args.task]
    from zoo.analysis.probes import probe
    from zoo.lab.measures import tasks_in
    from zoo.training.trained_run import load_trained

    for folder in args.runs:
        trained = load_trained(folder, args.step)
        data = trained.config.data
        if not (tasks := given or list(tasks_in(data.source, data.mixture))):
            raise ConfigError(
                f"{folder}: data.source={data.source} has no synthetic task, so the run was trained to answer none; "
                "name one with --task to ask it anyway"
            )
        for task in tasks:
            found = probe(trained, task, documents=args.documents)
            record = {"run": str(folder), "step": trained.step, "task": task.name, "length": task.length}
            record |= {"symbols": task.symbols, **vars(found)}
            print(json.dumps(record) if args.json else "\n".join(_lines(record)))
    return 0


def _lines(record: dict[str, Any]) -> list[str]:
    """Returns what people read of a probe."""
    context_only = "" if record["context_only"] is None else f", context only {record['context_only']:.1%}"
    lines = [
        f"{record['run']} at step {record['step']}: {record['task']}, length {record['length']}: "
        f"{record['accuracy']:.1%} of {record['documents']:,} answers (chance {record['chance']:.1%}{context_only})"
    ]
    for number, share in enumerate(record["by_question"], start=1):
        lines.append(f"  question {number} of {len(record['by_question'])}: {share:.1%}")
    for low, high, share, documents in record["by_distance"]:
        lines.append(f"  {low} to {high} characters back: {share:.1%} of {documents:,}")
    return lines
