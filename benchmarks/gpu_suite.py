"""Measures training on an accelerator, in stages that can be interrupted and continued.

    python benchmarks/gpu_suite.py --list
    python benchmarks/gpu_suite.py --out runs/gpu --limit 540    # what fits into 9 minutes; repeat
    python benchmarks/gpu_suite.py --out runs/gpu --stages step124,torch
    python benchmarks/gpu_suite.py --out runs/dry --tiny         # a dry run in small, on a CPU too
    python -m publication performance runs/gpu                   # fills in docs/performance.md

A stage consists of cells. Each has a process and a time limit of its own (the small cells of a stage
share a process) and appends one line to OUT/lines.jsonl. What has a line is not measured again. A cell
that fails, runs out of time or cannot be measured here has a line that says so, and is tried again by
the next call; the others go on. What the processes print is in OUT/output.log.
"""

import argparse
import contextlib
import functools
import gc
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_stages import lines
from gpu_stages.measuring import Settings, Skipped, Stage, is_out_of_memory, surroundings
from gpu_stages.table import STAGES

ROOT = Path(__file__).resolve().parents[1]
LOG = "output.log"
MEMORY_VARIABLES = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
HASTY_FLAGS = ("--xla_cpu_parallel_codegen_split_count=1", "--xla_cpu_use_fusion_emitters=false")
GRACE = 10
"""Seconds that processes have to end by themselves."""
TEXT = 2000
"""Characters of an error that its line keeps."""


def work(stage: str, names: Sequence[str], tiny: bool, folder: Path) -> None:
    """Measures cells in this process and appends their lines."""
    from zoo.training.runtime.allocator import keep_freed_memory

    keep_freed_memory()
    import jax

    from zoo.training.runtime.compilation_cache import use_compilation_cache
    from zoo.training.runtime.device_memory import peak_memory

    use_compilation_cache()
    cells = STAGES[stage].cells(tiny)
    for index, name in enumerate(names):
        began = time.perf_counter()
        result = outcome(STAGES[stage], cells[name])
        # A process knows the peak of all that it has done.
        peak = {} if index or "peak_bytes" in result or "skipped" in result else {"peak_bytes": peak_memory()}
        found = {"seconds": time.perf_counter() - began, **result, **peak, **surroundings()}
        lines.append(folder, heading(stage, name, cells[name], tiny) | found)
        jax.clear_caches()
        gc.collect()


def heading(stage: str, name: str, settings: Settings, tiny: bool) -> dict[str, Any]:
    """Returns the fields of a line that identify its measurement."""
    return {"stage": stage, "cell": name, "tiny": tiny, "config": dict(settings), "finished": time.time()}


def outcome(stage: Stage, settings: Settings) -> dict[str, Any]:
    """Returns a cell's measurements, or the reason for their absence under "skipped", "out_of_memory" or "error"."""
    try:
        return stage.measure(settings)
    except Skipped as why:
        return {"skipped": str(why)}
    except Exception as error:
        if is_out_of_memory(error):
            return {"out_of_memory": True}
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"[-TEXT:]}


def processes(stage: Stage, names: Sequence[str], tiny: bool) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yields the cells of each process, with its environment variables."""
    cells, together = stage.cells(tiny), stage.together or tiny
    waiting = list(names)
    while waiting:
        own = cells[waiting[0]].get("environment", {})
        alike = [name for name in waiting if cells[name].get("environment", {}) == own] if together else waiting[:1]
        waiting = [name for name in waiting if name not in alike]
        yield alike, {**stage.environment, **own}


def environment(own: Mapping[str, str], tiny: bool) -> dict[str, str]:
    """Returns the environment of a worker: what the caller sets of the device's memory stays."""
    inherited = dict(os.environ)
    if any(name in inherited for name in MEMORY_VARIABLES):
        own = {name: value for name, value in own.items() if name not in MEMORY_VARIABLES}
    flags = " ".join(filter(None, (inherited.get("XLA_FLAGS"), own.get("XLA_FLAGS"))))
    paths = os.pathsep.join(filter(None, (str(ROOT), inherited.get("PYTHONPATH"))))
    hurried = {}
    if tiny:
        # A dry run times nothing, and most of its time it compiles.
        hurried["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
        flags = " ".join(filter(None, (flags, _hasty_flags(inherited.get("XLA_FLAGS", "")))))
    return hurried | inherited | dict(own) | {"PYTHONPATH": paths} | ({"XLA_FLAGS": flags} if flags else {})


@functools.cache
def _hasty_flags(given: str) -> str:
    """Returns the flags beside the given ones with which XLA compiles faster for a CPU; none if it
    does not know them, with which it would end every process.
    """
    if all(flag in given for flag in HASTY_FLAGS):
        return ""
    program = [sys.executable, "-c", "import jax; jax.jit(lambda x: x + 1)(1.0)"]
    flags = " ".join(HASTY_FLAGS)
    variables = os.environ | {"XLA_FLAGS": f"{given} {flags}", "JAX_PLATFORMS": "cpu"}
    known = subprocess.run(program, env=variables, capture_output=True).returncode == 0
    return flags if known else ""


def start(stage: str, names: Sequence[str], own: Mapping[str, str], seconds: float, options: argparse.Namespace) -> str:
    """Runs a worker and waits for it; returns why it ended early, or ""."""
    command = [sys.executable, __file__, "--out", str(options.out), "--worker", stage]
    command += ["--tiny"] * options.tiny + [f"--cell={name}" for name in names]
    with open(options.out / LOG, "ab") as log:
        log.write(f"\n== {stage}: {', '.join(names)}\n".encode())
        log.flush()
        place = log.tell()
        worker = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment(own, options.tiny), start_new_session=True
        )
        try:
            code = worker.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"not done after its limit of {seconds:.0f} s"
        finally:
            # It may have started processes of its own, which are of the same group.
            _end(worker)
    printed = (options.out / LOG).read_bytes()[place:].decode(errors="replace")
    return f"the process ended with exit code {code}: {printed[-TEXT:]}" if code else ""


def _end(worker: subprocess.Popen) -> None:
    """Ends the remaining processes of a worker's group.

    A sweep ends its runs, which are in groups of their own, if it is asked to end.
    """
    for number, grace in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, number)
            until = time.monotonic() + grace
            while time.monotonic() < until:
                worker.poll()
                os.killpg(worker.pid, 0)
                time.sleep(0.05)
    worker.wait()


def run_stage(name: str, options: argparse.Namespace, end: float) -> bool:
    """Measures the cells of a stage that have no result yet, as far as there is time.

    Args:
        name: of the stage.
        options: of the command line.
        end: when the call has to end, by `time.monotonic`.

    Returns:
        Whether every cell has a result, or a reason why there can be none here.
    """
    stage, path, complete = STAGES[name], options.out / lines.FILE, True
    known = lines.newest(path)
    missing = [cell for cell in stage.cells(options.tiny) if not lines.is_done(known.get((name, cell, options.tiny)))]
    for cells, own in processes(stage, missing, options.tiny):
        while cells:
            fitting = cells[: int(min(len(cells), max(0, end - time.monotonic()) / stage.limit))]
            if not fitting:
                print(f"{name}: no time is left for {', '.join(cells)}", flush=True)
                complete = False
                break
            before = len(lines.read(path))
            problem = start(name, fitting, own, stage.limit * len(fitting), options)
            made = lines.read(path)[before:]
            tried = [line["cell"] for line in made]
            if len(tried) < len(fitting):
                # The one at which the process ended; those after it are tried by another one.
                failed = fitting[len(tried)]
                line = heading(name, failed, stage.cells(options.tiny)[failed], options.tiny)
                made.append(line | {"error": problem or "the process wrote no line"})
                lines.append(options.out, made[-1])
                tried.append(failed)
            for line in made:
                print(f"{name}: {line['cell']}: {told(line)}", flush=True)
            complete &= not any("error" in line for line in made)
            cells = cells[len(tried) :]
    return complete


def told(line: Mapping[str, Any]) -> str:
    """Returns a line in a few words."""
    if "error" in line:
        return f"FAILED, {' '.join(line['error'].split())[:300]}"
    if "skipped" in line:
        return f"skipped, {line['skipped']}"
    if "out_of_memory" in line:
        return "out of memory"
    words = [f"{line['tests_passed']} passed, {line['tests_not_run']} not run"] if "tests_passed" in line else []
    words += [f"{line['ms']['mean']:.3f} ms"] if "ms" in line else []
    words += [f"{line['tokens_per_second']:,.0f} tokens/s"] if "tokens_per_second" in line else []
    words += [f"MFU {100 * line['mfu']:.1f} %"] if line.get("mfu") else []
    return ", ".join([*words, f"{line['seconds']:.0f} s in all"])


def obstacle(tiny: bool) -> str:
    """Returns why nothing can be measured here, or "".

    A process of its own imports what the cells need, so that a missing package is found before a device's
    time is spent on cells that all fail; it ends and gives the device's memory back.
    """
    program = "import jax, zoo.inference, zoo.training.trainer; print(jax.default_backend())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment({}, tiny=False)
    )
    if done.returncode:
        return f"zoo cannot be imported: {' '.join(done.stderr.split()[-12:])}"
    if not tiny and done.stdout.split()[-1:] == ["cpu"]:
        return "there is no accelerator here; --tiny tries the stages on a CPU"
    return ""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--out", type=Path, help="folder of the results; one for each machine")
    parser.add_argument("--stages", default=",".join(STAGES), help="these, with commas between (default: all)")
    limit = "for the whole call: what might not end in time is not started"
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS", help=limit)
    parser.add_argument("--list", action="store_true", help="print the stages and their limits")
    parser.add_argument("--tiny", action="store_true", help="everything in small, to see whether it runs")
    parser.add_argument("--worker", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--cell", action="append", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if unknown := set(options.stages.split(",")) - set(STAGES):
        parser.error(f"no stage is called {', '.join(sorted(unknown))}; there are {', '.join(STAGES)}")
    if not (options.out or options.list):
        parser.error("--out DIR says where the results go")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns 1 if a cell failed or was not reached, 2 without an accelerator, else 0."""
    options = parse(arguments)
    if options.list:
        for name, stage in STAGES.items():
            cells = len(stage.cells(False))
            print(f"{name:11s} {cells:3d} cells of at most {stage.limit:3.0f} s  {stage.meaning}")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    if options.worker:
        work(options.worker, options.cell, options.tiny, options.out)
        return 0
    if problem := obstacle(options.tiny):
        print(problem, file=sys.stderr)
        return 2
    # A worker is a group of its own, which nobody else would end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped; the same command continues"))
    end = time.monotonic() + options.limit
    complete = [run_stage(name, options, end) for name in STAGES if name in options.stages.split(",")]
    return 0 if all(complete) else 1


if __name__ == "__main__":
    sys.exit(main())
