"""`zoo harness`: tasks of lm-evaluation-harness on runs."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from zoo.arguments import at_least
from zoo.errors import ConfigError

DESCRIPTION = """Scores trained or imported runs on tasks of EleutherAI's lm-evaluation-harness (the extra `harness`):
its own, such as blimp, lambada_openai, hellaswag and arc_easy, whose data are downloaded, or a YAML file of your own
with data beside it. Each result is stored as RUN/harness/TASK.json and not computed again (docs/harness.md)."""
EPILOG = """examples:
  zoo harness runs/first --tasks blimp,lambada_openai
  zoo harness runs/first runs/other --tasks hellaswag --limit 500 --shots 5
  zoo harness runs/first --tasks tasks/pairs.yaml
  zoo run --config=gpt2:tiny --vary model.norm.kind=layernorm,rmsnorm --seeds 3 --measure harness:tasks/pairs.yaml"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "harness",
        help="score a run on tasks of lm-evaluation-harness: BLiMP, LAMBADA, HellaSwag, your own",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", type=Path, help="folders of runs")
    add("--tasks", metavar="TASK,...", required=True, help="names of tasks or groups, or YAML files")
    add(
        "--include-path",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="folder with YAML files of tasks that --tasks names; repeat for more",
    )
    add(
        "--shots",
        metavar="N",
        type=at_least(0, int),
        help="examples before each question, except in tasks that are defined with none (default: as the task says)",
    )
    add("--limit", metavar="N", type=at_least(1, int), help="score the first N questions of each task (default: all)")
    add(
        "--max-length",
        metavar="T",
        type=at_least(2, int),
        help="tokens that are read at once; of a longer text the last ones (default: those of a row in training)",
    )
    add("--rows", metavar="N", type=at_least(1, int), default=32, help="texts that are read at once (default: 32)")
    add("--step", default="latest", help="checkpoint: latest, best, or a step (default: %(default)s)")
    add("--json", action="store_true", help="print one JSON object for each run and task")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Evaluates and prints; returns the exit code."""
    tasks = [task.strip() for task in args.tasks.split(",") if task.strip()]
    if not tasks:
        raise ConfigError("--tasks names no task")
    from zoo.harness.evaluation import Harness, HarnessSettings, evaluate_folder
    from zoo.training.trained_run import load_trained

    harness = Harness(tasks, args.include_path)
    settings = HarnessSettings(args.shots, args.limit, args.max_length)
    for folder in args.runs:
        trained = load_trained(folder, args.step)
        for task in tasks:
            record = evaluate_folder(harness, folder, trained, task, settings, args.rows)
            unchanged = [name for name, entry in record["results"].items() if entry["shots"] == 0]
            if args.shots and unchanged:
                which = f"{', '.join(unchanged)}: defined without examples"
                print(f"note: --shots {args.shots} has no effect on {which}", file=sys.stderr)
            shown = {"run": str(folder)} | record
            print(json.dumps(shown) if args.json else "\n".join(_lines(shown)), flush=True)
    return 0


def _lines(record: dict[str, Any]) -> list[str]:
    """Returns what people read of a record."""
    lines = [f"{record['run']} at step {record['step']}: {record['task']}"]
    width = max(map(len, record["results"]))
    for name, entry in record["results"].items():
        metrics = entry["metrics"]
        values = [
            f"{metric} {value:.4f}" + (f" ± {metrics[error]:.4f}" if (error := _error_of(metric)) in metrics else "")
            for metric, value in metrics.items()
            if "_stderr" not in metric
        ]
        questions = f" ({entry['questions']:,} questions)" if entry["questions"] else ""
        lines.append(f"  {name:{width}s}  {', '.join(values)}{questions}")
    return lines


def _error_of(metric: str) -> str:
    name, comma, filter_ = metric.partition(",")
    return f"{name}_stderr{comma}{filter_}"
