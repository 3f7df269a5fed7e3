"""`zoo doctor`: what this machine offers to training, and whether it is as fast as it should be."""

import argparse
import json
import os
import platform
import resource
import time
from importlib import metadata
from pathlib import Path
from typing import Any

EXAMPLES = """examples:
  zoo doctor
  zoo doctor --json > doctor.json     to attach to a question"""
PACKAGES = ("zoo", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "ml-collections", "grain", "numpy")
# A product of an FFN's size, in float32 on two cores, measured with this command's shapes.
EXPECTED_PRODUCT = {
    "avx512f": "149 to 293 GFLOP/s on two cores of an EPYC with AVX-512 (Zen 5)",
    "avx2": "80 to 135 GFLOP/s on two cores of an EPYC with AVX2 (Zen 3)",
}
PRODUCT = (4096, 256, 1024)
SECONDS = 2.0
"""Time of each of the two measurements."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "doctor",
        help="versions, devices, caches and speed of this machine",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Shows what this machine offers to training, and measures for about five seconds how fast it is.",
    )
    parser.add_argument("--no-speed", action="store_true", help="leave out the measurements")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Prints what is found."""
    from zoo.training.runtime.allocator import VARIABLE, keep_freed_memory

    kept = keep_freed_memory()
    import jax

    from zoo.training.records.processor import processor_name, vector_instructions
    from zoo.training.records.threads import available_cores
    from zoo.training.runtime.compilation_cache import use_compilation_cache

    use_compilation_cache()
    device = jax.devices()[0]
    found: dict[str, Any] = {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "processor": {
            "name": processor_name(),
            "cores": available_cores(),
            "instructions": vector_instructions(),
            "load": os.getloadavg()[0],
        },
        "devices": {"count": jax.device_count(), "platform": device.platform, "kind": device.device_kind},
        "keeps_freed_memory": kept,
        "compilation_cache": _cache(jax.config.jax_compilation_cache_dir),
    }
    if not args.no_speed:
        product, step = _product_speed(), _step_speed()
        found["speed"] = {"product_gflops": product, **step, "share": step["step_gflops"] / product}
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    print("\n".join(_lines(found, VARIABLE)))
    return 0


def _lines(found: dict[str, Any], variable: str) -> list[str]:
    processor, devices, cache = found["processor"], found["devices"], found["compilation_cache"]
    instructions = ", ".join(processor["instructions"]) or "no AVX2"
    lines = [
        "versions    " + ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
        f"processor   {processor['name']}, {processor['cores']} cores, {instructions}, load {processor['load']:.1f}",
        f"devices     {devices['count']} x {devices['kind']} ({devices['platform']})",
        f"memory      {'what is freed stays' if found['keeps_freed_memory'] else 'what is freed is given back'} "
        f"({'set ' + variable + '=0 to give it back' if found['keeps_freed_memory'] else 'see docs/performance.md'})",
        f"programs    {cache['files']} compiled, {cache['megabytes']:,.0f} MB, in {cache['folder']}",
    ]
    if "speed" not in found:
        return lines
    speed = found["speed"]
    lines.append(f"product     {speed['product_gflops']:,.0f} GFLOP/s for {' x '.join(map(str, PRODUCT))} in float32")
    if devices["platform"] == "cpu":
        expected = [EXPECTED_PRODUCT[name] for name in ("avx512f", "avx2") if name in processor["instructions"]]
        lines += [f"            measured elsewhere: {expected[0]}"] if expected else []
    lines.append(
        f"step        {speed['step_milliseconds']:,.1f} ms, {speed['tokens_per_second']:,.0f} tokens/s, "
        f"{speed['step_gflops']:,.0f} GFLOP/s ({speed['share']:.0%} of the product's), "
        f"{speed['page_faults']:,.0f} page faults"
    )
    if processor["load"] > 1:
        lines.append("            other programs are using this machine: what was measured is too slow")
    return lines


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cache(folder: str | None) -> dict[str, Any]:
    files = [path for path in Path(folder).glob("*") if path.is_file()] if folder else []
    size = sum(path.stat().st_size for path in files)
    return {"folder": folder, "files": sum(path.name.endswith("-cache") for path in files), "megabytes": size / 1e6}


def _repeated(call: Any) -> float:
    """Returns the seconds of a call, the mean over `SECONDS` after two calls."""
    import jax

    jax.block_until_ready(call())
    jax.block_until_ready(call())
    began, calls = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - began) < SECONDS:
        jax.block_until_ready(call())
        calls += 1
    return elapsed / calls


def _product_speed() -> float:
    """Returns the GFLOP/s of a matrix product in float32."""
    import jax
    import jax.numpy as jnp

    rows, depth, columns = PRODUCT
    x, y = jnp.ones((rows, depth)), jnp.ones((depth, columns))
    product = jax.jit(jnp.matmul)
    return 2 * rows * depth * columns / _repeated(lambda: product(x, y)) / 1e9


def _step_speed() -> dict[str, float]:
    """Returns time, tokens and operations per second, and page faults of a training step of a small
    GPT (4 layers of width 128, 8 rows of 128 tokens).
    """
    import numpy as np

    from zoo import config as configs
    from zoo.models import cost
    from zoo.resources.abstract_run import abstract_program

    config = configs.resolve(
        configs.override(
            configs.default(),
            {"model.dim": 128, "model.num_layers": 4, "data.sequence_length": 128, "data.batch_size": 8},
        )
    )
    program = abstract_program(config)
    state, constants = program.initial_state(0), program.constants(0)
    rows, length = config.data.batch_size, config.data.sequence_length
    tokens = np.random.default_rng(0).integers(0, 256, (rows, length + 1), dtype=np.int32)
    batch = program.put_batch({"tokens": tokens})
    steps = 0

    def step() -> Any:
        nonlocal state, steps
        state, metrics = program.train_step(state, batch, constants)
        steps += 1
        return metrics

    step()["loss"].block_until_ready()
    before, steps = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, 0
    seconds = _repeated(step)
    faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / steps
    flops = cost.summary(config).flops_per_token * rows * length / seconds / 1e9
    return {
        "step_milliseconds": seconds * 1e3,
        "tokens_per_second": rows * length / seconds,
        "step_gflops": flops,
        "page_faults": faults,
    }
