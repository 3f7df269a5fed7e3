"""Trains one config: the command behind `train.py`."""

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import config as configs
from zoo.arguments import Parser
from zoo.cli import plugin_options
from zoo.cli.start_argument import start_argument
from zoo.errors import print_while_read, reported
from zoo.training.runtime.folder_lock import check_run_folder

if TYPE_CHECKING:
    from zoo.training.program_cache import ProgramCache

DESCRIPTION = """Trains one config. A workdir that has a checkpoint is continued.

  python train.py --config=configs/llama.py:tiny --workdir=runs/first
  python train.py --config=configs/gpt2.py:tiny --config.model.position.kind=alibi --workdir=runs/alibi

Every field of the config can be set by its dotted path; `zoo config show` lists them with their values."""

EPILOG = """Under SLURM, the tasks of one `srun` train one run together. Elsewhere, start each process with
--coordinator=HOST:PORT (of process 0) --processes=N --process=I, where I is 0 to N-1.

exit codes: 0 done, 2 bad config or flags, 3 bad content of data, 4 diverged, 75 stopped by a signal and saved"""


def parser() -> argparse.ArgumentParser:
    """Returns the command line of `train.py`."""
    made = Parser(
        prog="train.py", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--config", required=True, metavar="FILE[:ARGUMENT]", help="config file, or the config.json of a run"
    )
    made.add_argument("--workdir", required=True, type=Path, help="folder of this run: metrics, checkpoints, records")
    made.add_argument("--coordinator", metavar="HOST:PORT", help="with several processes: address of process 0")
    made.add_argument("--processes", metavar="N", type=int, help="number of processes that train this run together")
    made.add_argument("--process", metavar="N", type=int, help="index of this process, from 0")
    made.add_argument(
        "--allow",
        choices=("seen_text",),
        help="seen_text: accept held-out text that the run of training.start_from, or the teacher, was trained on",
    )
    made.add_argument(
        "--tracker",
        metavar="NAME,...",
        help="metric trackers besides the run's own files: tensorboard, wandb, trackio, or none",
    )
    made.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object at the end: the run's status and its last scores; progress goes to stderr",
    )
    made.add_argument(
        "--config.PATH=VALUE",
        dest="_",
        action="store_const",
        const=None,
        help="set a field, e.g. --config.model.dim=128",
    )
    plugin_options.add_options(made)
    return made


@reported
def main(arguments: Sequence[str] | None = None, programs: "ProgramCache | None" = None) -> int:
    """Parses the flags, trains, and returns the exit code.

    Args:
        arguments: the flags; by default those of the process.
        programs: programs of earlier runs of this process.
    """
    known, rest = parser().parse_known_args(arguments)
    check_run_folder(known.workdir)
    plugin_options.load(known)
    config = configs.override(configs.load_with_plugins(known.config), configs.parse_overrides(rest))
    if known.tracker is not None:
        config = configs.override(
            config, {"training.trackers": () if known.tracker == "none" else tuple(known.tracker.split(","))}
        )
    if known.allow:
        config = configs.override(config, {"training.allow_seen_text": True})
    _warn_of_edit(known.config, known.workdir)
    configs.resolve(config)  # Problems of the config are reported before JAX is imported.
    from zoo.training.runtime import allocator, processes

    allocator.keep_freed_memory()
    processes.join(processes.from_flags(known.coordinator, known.processes, known.process) or processes.from_slurm())
    from zoo.training.trainer import run

    stream, main_process = sys.stderr if known.json else sys.stdout, processes.is_main_process()
    log = partial(print_while_read, stream=stream) if main_process else (lambda line: None)
    with processes.watched_by_partners():
        status = run(config, known.workdir, log, programs)
    log(f"another run starts from this one with {start_argument(known.workdir)}")
    if known.json and main_process:
        print(json.dumps({"workdir": str(known.workdir)} | status | _last_scores(known.workdir), indent=2))
    return 0


def _warn_of_edit(config: str, workdir: Path) -> None:
    """Warns where the config of another run is used that was edited in that run's folder; for the
    run's own folder it is refused.
    """
    path = Path(config)
    folder = path if path.is_dir() else path.parent
    if path.name not in ("config.json", folder.name) or folder.resolve() == workdir.resolve():
        return
    from zoo.training.records.record_faults import config_edit
    from zoo.training.records.run_folder import RunFolder

    if (folder / "meta.json").is_file() and (line := config_edit(RunFolder(folder, strict=False))):
        print(f"warning: {line}", file=sys.stderr)


def _last_scores(workdir: Path) -> dict[str, Any]:
    """Returns the last line of metrics.jsonl that has scores of held-out data: {"tokens", "seconds",
    "scores"}; nothing if there is none.
    """
    from zoo.training.records.metrics_file import read_lines_with_step

    lines = (line for _, line in read_lines_with_step(workdir / "metrics.jsonl"))
    scored = [line for line in lines if any(name.startswith("eval/") for name in line)]
    if not scored:
        return {}
    line = scored[-1]
    return {name: line[name] for name in ("tokens", "seconds") if name in line} | {
        "scores": {name: value for name, value in line.items() if name.startswith("eval/")}
    }


if __name__ == "__main__":
    sys.exit(main())
