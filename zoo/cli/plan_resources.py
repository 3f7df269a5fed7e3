"""`zoo plan`: what a run needs on many devices, before it is paid for."""

import argparse
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zoo.cli.config import resolved_config
from zoo.errors import ConfigError
from zoo.training.runtime.device_peaks import DEVICES

if TYPE_CHECKING:
    from zoo.resources.resource_plan import ResourcePlan, Stage

EXAMPLES = """examples:
  zoo plan configs/llama.py:v2-70b --devices 256 --device h200
  zoo plan configs/gpt2.py:small --devices 8 --device a100 --suggest
  zoo plan configs/llama.py:7b --devices 8 --config.mesh.fsdp=8 --config.mesh.data=1 --json

For TPUs (v5e, v5p, v6e, tpu7x) the train step is compiled by their own compiler, libtpu, and for NVIDIA's a100,
h100, h200 and b200 by theirs, if that is installed (the extras "tpu" and "cuda"); no accelerator is needed. Memory
and collectives are then those of the program that would run there.
Otherwise it is compiled for simulated devices on this machine's CPU. The division of arrays and the state are
those of the real devices; temporaries and bytes are mostly too large, because a CPU fuses less, computes and
sends bfloat16 as float32, and sums a gradient on all devices where others keep only their share of the sum.
Times are lower bounds, from the peaks of the device's data sheet."""

# XLA fails to simulate more, or never ends.
MOST_DEVICES = 2048


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "plan",
        help="memory, communication and time of a run on many devices, without them",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Plans a run: memory and collectives of each device, time of a step, and what to change if it does "
        "not fit.",
    )
    parser.add_argument("config", metavar="CONFIG", help="FILE[:ARGUMENT], a run's folder, or its config.json")
    parser.add_argument("--devices", type=int, default=1, metavar="N", help="number of devices (default 1)")
    parser.add_argument("--device", choices=sorted(DEVICES), help="their kind; without it no times are estimated")
    parser.add_argument("--suggest", action="store_true", help="find the smallest change with which the run fits")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run, takes_overrides=True)


def run(args: argparse.Namespace) -> int:
    """Plans a run on simulated devices and prints the plan."""
    if not 1 <= args.devices <= MOST_DEVICES:
        raise ConfigError(f"--devices={args.devices} must be at least 1 and at most {MOST_DEVICES:,}")
    if args.suggest and args.device is None:
        raise ConfigError("--suggest needs --device, whose memory the run must fit")
    config = resolved_config(args.config, args.overrides)
    simulate(args.devices)
    from zoo.resources.resource_plan import make_plan, suggest

    plan = make_plan(config, args.device)
    found = suggest(config, plan, lambda changed: make_plan(changed, args.device)) if needs_change(args, plan) else None
    if args.json:
        print(json.dumps(as_json(plan) | ({"suggestion": None if found is None else found[0]} if args.suggest else {})))
        return 0
    print("\n".join(as_lines(plan)))
    if needs_change(args, plan):
        print("\nno change of parts, recomputation and mesh that was tried fits" if found is None else "")
        if found is not None:
            settings = " ".join(f"--config.{path}={value}" for path, value in found[0].items())
            print(f"fits with {settings}: {gib(found[1].memory)} a device")
    return 0


def simulate(devices: int) -> None:
    """Gives this process a number of simulated devices; to be called before any are used."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", devices)


def summary_line(plan: "ResourcePlan") -> str:
    """Returns memory, communication and time of a plan in one line."""
    fits = "" if plan.fits is None else ", fits" if plan.fits else ", DOES NOT FIT"
    whole = plan.whole
    step = f", at least {max(whole.seconds.values()) * 1e3:,.1f} ms" if whole.seconds else ""
    return (
        f"{gib(plan.memory)} a device ({gib(plan.state)} of it state){fits}; "
        f"{gib(sum(whole.measured.wire.values()))} sent in a step{step}"
    )


def needs_change(args: argparse.Namespace, plan: "ResourcePlan") -> bool:
    """Returns whether a change is asked for and needed."""
    return args.suggest and not plan.fits


def gib(size: float) -> str:
    """Returns a number of bytes in GiB, or in MiB where that is short."""
    return f"{size / 2**30:,.2f} GiB" if size >= 2**30 / 10 else f"{size / 2**20:,.2f} MiB"


def as_json(plan: "ResourcePlan") -> dict[str, Any]:
    """Returns a plan as plain values: bytes, operations, seconds; those of the whole run as "run"."""
    run = {"steps": plan.steps, "tokens": plan.tokens, "flops": plan.flops, "seconds": plan.run_seconds()}
    return asdict(plan) | {"memory": plan.memory, "limit": plan.limit, "fits": plan.fits, "run": run}


def as_lines(plan: "ResourcePlan") -> list[str]:
    """Returns the lines that are printed of a plan."""
    from zoo.training.mesh import described_axes

    whole, axes = plan.whole, described_axes(plan.mesh)
    measured = plan.largest.measured
    lines = [
        f"devices      {plan.devices} x {plan.device or 'unknown kind'}, mesh {axes}",
        f"parameters   {plan.parameters:,}"
        + (f", {plan.active_parameters:,} of them active" if plan.active_parameters else ""),
        *(
            f"stage        {stage.steps:,} steps of {stage.tokens:,} tokens: {stage.rows:,} rows of {stage.length:,}"
            for stage in plan.stages[:-1]
        ),
        f"batch        {whole.tokens:,} tokens in {plan.parts} part{'s' * (plan.parts > 1)}",
        *(f"attention    {line}" for line in plan.attention),
        *_decoding_lines(plan),
        "",
        "memory of a device" + _of_stage(plan, plan.largest),
        f"  state        {gib(plan.state):>14s}   parameters and optimizer, exact",
        f"  temporaries  {gib(measured.temporaries):>14s}   "
        + (f"of a CPU's compilation: {plan.simulated}" if plan.simulated else f"by the compiler for {plan.device}"),
    ]
    lines += [f"    {shape:34s} {gib(size):>14s}" for size, shape in measured.kept[:5]]
    total = f"  together     {gib(plan.memory):>14s}"
    if plan.device is not None:
        total += f"   {'fits' if plan.fits else 'DOES NOT FIT'} in the {gib(plan.limit)} that a program can have"
    wire, counts = whole.measured.wire, whole.measured.counts
    kernels = ", ".join(f"{name} {count:,.0f} times" for name, count in whole.measured.kernels.items())
    lines += [total, *([f"fused kernels: {kernels}"] if kernels else [])]
    lines += ["", "sent by a device in a step" + _of_stage(plan, whole)]
    lines += [f"  {kind:19s} {gib(size):>14s}   {counts[kind]:,.0f} times" for kind, size in wire.items()] or [
        "  nothing" if whole.measured.complete else "  unknown: the compiler ends where the memory does"
    ]
    return [*lines, *_time_lines(plan), *(f"\nwarning: {warning}" for warning in plan.warnings)]


def _decoding_lines(plan: "ResourcePlan") -> list[str]:
    """Returns what a decoder's cache keeps; nothing for models that cache nothing."""
    if plan.cached_bytes is None:
        return []
    tokens = plan.cached_bytes if isinstance(plan.cached_bytes, dict) else {"": plan.cached_bytes}
    kept = [f"{size:,} bytes of each token{f' of the {side}' if side else ''}" for side, size in tokens.items() if size]
    kept += [f"{plan.state_bytes:,} bytes of each text, whatever its length"] if plan.state_bytes else []
    return [f"decoding     keeps {' and '.join(kept) or 'nothing'}"]


def _of_stage(plan: "ResourcePlan", stage: "Stage") -> str:
    """Returns which updates are meant, where the batches of a run have several shapes."""
    return f" ({stage.rows:,} rows of {stage.length:,})" if len(plan.stages) > 1 else ""


def _time_lines(plan: "ResourcePlan") -> list[str]:
    whole, day = plan.whole, 86400
    if not whole.seconds:
        if len(plan.stages) == 1:
            return []
        return ["", f"whole run       {plan.steps:,} steps, {plan.tokens / 1e9:,.2f} G tokens"]
    step, limit = max(whole.seconds.values()), max(whole.seconds, key=whole.seconds.get)
    parts = ", ".join(f"{name} {seconds * 1e3:,.1f} ms" for name, seconds in whole.seconds.items())
    least, usual = plan.run_seconds() / day, plan.run_seconds(0.4) / day
    return [
        "",
        f"time of a step  at least {step * 1e3:,.1f} ms ({parts}): limited by {limit}{_of_stage(plan, whole)}",
        f"whole run       {plan.steps:,} steps, {plan.tokens / 1e9:,.2f} G tokens: at least {least:,.2f} days; "
        f"at 40 % of the peak {usual:,.2f} days",
    ]
