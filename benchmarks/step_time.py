"""Time of one training step: of the same GPT here and in PyTorch eager, and of every system here,
alternating in one run.

    python benchmarks/step_time.py            # the GPT against PyTorch; needs the `parity` extra (torch)
    python benchmarks/step_time.py --models tiny,small --threads 1,2
    python benchmarks/step_time.py --zoo rows,einsum --processor-time  # kernels of attention, on a busy machine
    python benchmarks/step_time.py --systems  # every config file at its tiny size against GPT-2's, a row each; --only=t5,elmo for some

The models (`MODELS`): 4 heads, B 16, float32, GELU, learned positions, tied head, AdamW. Worker
processes stay resident and take turns, a few steps at a time, so that what else the machine does
falls on all of them; like `zoo train`, they keep freed memory. A turn in which other processes used
more than `--foreign` of the machine's processor time is thrown away; with `--processor-time` that of
the worker itself is measured, and every turn counts. Printed are medians, the quartiles, and the
ratio of each pair of neighbouring turns.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from zoo.training.records.threads import THREADS, available_cores

MODELS = {
    "tiny": {"layers": 4, "width": 64, "heads": 4, "length": 64, "batch": 16, "vocabulary": 264},
    "small": {"layers": 6, "width": 128, "heads": 4, "length": 128, "batch": 16, "vocabulary": 264},
    "medium": {"layers": 4, "width": 256, "heads": 4, "length": 256, "batch": 16, "vocabulary": 512},
    "large-vocabulary": {"layers": 4, "width": 256, "heads": 4, "length": 256, "batch": 16, "vocabulary": 8192},
}


def zoo_stepper(shape: Mapping[str, int], overrides: list[str]):
    """Returns a function that does one step of the real train step of zoo and waits for it."""
    import jax
    import numpy as np

    from zoo import config as configs
    from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
    from zoo.models.architectures import make_model
    from zoo.objectives import make_objective
    from zoo.training.mesh import make_mesh
    from zoo.training.step import make_program

    config = configs.resolve(
        configs.override(
            configs.default(),
            {
                "model.dim": shape["width"],
                "model.num_layers": shape["layers"],
                "model.attention.num_heads": shape["heads"],
                "model.vocab_size": shape["vocabulary"],
                "data.sequence_length": shape["length"],
                "data.batch_size": shape["batch"],
                "optimizer.weight_decay": 0.1,
                **configs.parse_overrides([f"--config.{text}" for text in overrides]),
            },
        )
    )
    program = make_program(config, make_model(config), make_objective(config, ByteTokenizer()), make_mesh(config))
    state, constants = program.initial_state(0), program.constants(0)
    size = shape["batch"], shape["length"] + 1
    rows = np.random.default_rng(0).integers(0, shape["vocabulary"], size, np.int32)

    def step():
        nonlocal state
        state, metrics = program.train_step(state, program.put_batch({"tokens": rows}), constants)
        return float(jax.device_get(metrics["loss"]))

    return step


def system_stepper(shape: Mapping[str, int], overrides: list[str]):
    """Returns a function that does one step of a config file on real batches and waits for it;
    `overrides` is [file:size].
    """
    del shape
    import jax

    from zoo import config as configs
    from zoo import data
    from zoo.data import resolve_with_data
    from zoo.models.architectures import make_model
    from zoo.objectives import make_objective
    from zoo.training.mesh import make_mesh
    from zoo.training.step import make_program

    config = resolve_with_data(configs.load(overrides[0]))
    dataset = data.load(config)
    program = make_program(config, make_model(config), make_objective(config, dataset.tokenizer), make_mesh(config))
    state, constants = program.initial_state(0), program.constants(0)
    with dataset.training_batches() as batches:
        batch = next(batches)

    def step():
        nonlocal state
        state, metrics = program.train_step(state, program.put_batch(batch), constants)
        return float(jax.device_get(metrics["loss"]))

    return step


def torch_model(vocabulary: int, shape: Mapping[str, int], gelu: str = "none"):
    """Returns the GPT in PyTorch: tokens [B, T] -> logits [B, T, V].

    Args:
        vocabulary: V.
        shape: "layers", "width", "heads" and "length".
        gelu: approximation of GELU, "none" or "tanh".
    """
    import torch
    from torch import nn
    from torch.nn import functional

    width, heads = shape["width"], shape["heads"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = (
                part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in self.qkv(self.norm_1(x)).chunk(3, -1)
            )
            attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.output(attended.transpose(1, 2).flatten(-2))
            return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate=gelu))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.position = nn.Embedding(vocabulary, width), nn.Embedding(shape["length"], width)
            nn.init.normal_(self.embedding.weight, std=0.02)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(shape["layers"]))), nn.LayerNorm(width)

        def forward(self, tokens):
            x = self.embedding(tokens) + self.position.weight
            return self.norm(self.blocks(x)) @ self.embedding.weight.T

    torch.manual_seed(0)
    return Model()


def torch_stepper(shape: Mapping[str, int], overrides: list[str]):
    """Returns a function that does one step of the same model in PyTorch eager."""
    del overrides
    import torch
    from torch.nn import functional

    torch.set_num_threads(int(os.environ[THREADS]))
    model = torch_model(shape["vocabulary"], shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), weight_decay=0.1)
    rows = torch.randint(0, shape["vocabulary"], (shape["batch"], shape["length"] + 1))

    def step():
        logits = model(rows[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


STEPPERS = {"zoo": zoo_stepper, "torch": torch_stepper, "system": system_stepper}


def work(name: str, model: str, milliseconds: float, overrides: list[str]) -> None:
    """A worker: builds, warms up, then does as many steps as take `milliseconds` for every line on its
    input and prints seconds per step, seconds of its processor time per step, and their number.
    """
    if name != "torch":
        from zoo.training.runtime.allocator import keep_freed_memory

        keep_freed_memory()
    step = STEPPERS[name](MODELS[model], overrides)
    for _ in range(3):
        loss = step()
    began = time.process_time()
    step()
    steps = max(1, round(milliseconds / 1000 / max(time.process_time() - began, 1e-4)))
    print("ready", loss, flush=True)
    for _ in sys.stdin:
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        print((time.perf_counter() - began) / steps, (time.process_time() - cpu) / steps, steps, flush=True)


def busy_seconds() -> float:
    """Processor seconds that the whole machine has spent on anything since it started."""
    fields = [int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """First quartile, median, third quartile."""
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else (values[0],) * 3
    return low, middle, high


def take_turns(
    commands: dict[str, list[str]], arguments: argparse.Namespace, threads: int
) -> tuple[list[dict[str, float]], int]:
    """Runs workers side by side, a few steps of each in turn.

    Args:
        commands: arguments of each worker, by its name.
        arguments: `rounds`, `turn`, `processor_time` and `foreign` of the command line.
        threads: of each worker.

    Returns:
        (milliseconds per step of every worker, for each clean turn; number of turns that were
        thrown away).
    """
    # Idle workers must not spin while the other one is measured.
    environment = os.environ | {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0", THREADS: str(threads)}
    workers = {
        name: subprocess.Popen(
            [sys.executable, __file__, *command, "--turn", str(arguments.turn)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for name, command in commands.items()
    }
    for name, worker in workers.items():
        ready = worker.stdout.readline().strip()
        if not ready:
            raise SystemExit(f"{name} failed")
    rounds, dropped = [], 0
    while len(rounds) < arguments.rounds and dropped < 5 * arguments.rounds:
        turn = {}
        clean = True
        for name, worker in workers.items():
            busy, began = busy_seconds(), time.perf_counter()
            worker.stdin.write("go\n")
            worker.stdin.flush()
            seconds, own, steps = map(float, worker.stdout.readline().split())
            foreign = busy_seconds() - busy - own * steps
            few = arguments.foreign * (time.perf_counter() - began) * (os.cpu_count() or 1)
            clean &= arguments.processor_time or foreign < few
            turn[name] = 1000 * (own if arguments.processor_time else seconds)
        if clean:
            rounds.append(turn)
        else:
            dropped += 1
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    return rounds, dropped


def compare(model: str, threads: int, arguments: argparse.Namespace) -> None:
    """Prints the figures of one model with a number of threads."""
    sets = [f"--set={text}" for text in arguments.set]
    kernels = {kernel: [*sets, f"--set=model.attention.implementation={kernel}"] for kernel in arguments.zoo}
    commands = {f"zoo {kernel}": ["--worker", "zoo", "--model", model, *words] for kernel, words in kernels.items()}
    if not arguments.only_zoo:
        commands["torch"] = ["--worker", "torch", "--model", model]
    rounds, dropped = take_turns(commands, arguments, threads)
    label = f"{model}, {threads} thread{'' if threads == 1 else 's'}"
    if not rounds:
        print(f"{label}: no turn was clean; the machine is busy (--processor-time, or raise --foreign)")
        return
    last = list(commands)[-1]
    for name in commands:
        low, middle, high = quartiles([turn[name] for turn in rounds])
        line = f"{label}  {name:10s} median {middle:7.1f} ms  quartiles {low:.1f} .. {high:.1f}"
        if name != last:
            low, middle, high = quartiles([turn[name] / turn[last] for turn in rounds])
            line += f"  / {last}: {middle:.3f}, {low:.3f} .. {high:.3f}"
        print(f"{line}  n={len(rounds)}, {dropped} dropped", flush=True)


BASELINE = "gpt2"


def compare_systems(arguments: argparse.Namespace) -> None:
    """Prints a row for every config file at its tiny size: its step and that of the baseline, taken
    in turn.
    """
    folder = Path(__file__).parents[1] / "configs"
    names = arguments.only.split(",") if arguments.only else sorted(path.stem for path in folder.glob("*.py"))
    print(f"{'system':18s} {'ms per step':>11s} {'quartiles':>15s}   {'/ ' + BASELINE:>7s}")
    for name in names:
        if name == "shakespeare_char":  # Reads a file that has to be given.
            continue
        commands = {each: ["--worker", "system", f"--set={folder / each}.py:tiny"] for each in (BASELINE, name)}
        rounds, dropped = take_turns(commands, arguments, arguments.threads[0])
        if not rounds:
            print(f"{name:18s} no turn was clean; the machine is busy (raise --foreign)")
            continue
        low, middle, high = quartiles([turn[name] for turn in rounds])
        ratio = statistics.median(turn[name] / turn[BASELINE] for turn in rounds)
        spread = f"{low:.1f} .. {high:.1f}"
        print(
            f"{name:18s} {middle:11.1f} {spread:>15s}   {ratio:7.2f}   n={len(rounds)}, {dropped} dropped", flush=True
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--models", type=lambda text: text.split(","), default=[*MODELS], help=", ".join(MODELS))
    parser.add_argument(
        "--threads",
        type=lambda text: [int(x) for x in text.split(",")],
        default=[available_cores()],
        help="numbers of threads, with commas between (default: one for each core)",
    )
    parser.add_argument(
        "--zoo", type=lambda text: text.split(","), default=["auto"], help="kernels of attention of zoo's side"
    )
    parser.add_argument("--rounds", type=int, default=12, help="clean turns per model")
    parser.add_argument("--turn", type=float, default=1000, metavar="MS", help="processor time of a turn")
    parser.add_argument(
        "--processor-time", action="store_true", help="measure processor time, which other processes disturb less"
    )
    parser.add_argument(
        "--foreign", type=float, default=0.07, help="largest share of the machine that others may use in a turn"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", help="override a config field of zoo's side"
    )
    parser.add_argument("--only-zoo", action="store_true", help="leave PyTorch out")
    parser.add_argument("--systems", action="store_true", help="every system at its tiny size, against " + BASELINE)
    parser.add_argument(
        "--only", default="", metavar="NAMES", help="with --systems: these config files, with commas between"
    )
    parser.add_argument("--worker", choices=STEPPERS, help=argparse.SUPPRESS)
    parser.add_argument("--model", choices=MODELS, default="tiny", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.models if name not in MODELS]:
        parser.error(f"--models: {', '.join(unknown)} not known; there are {', '.join(MODELS)}")
    if arguments.worker:
        work(arguments.worker, arguments.model, arguments.turn, arguments.set)
        return
    if arguments.systems:
        compare_systems(arguments)
        return
    for model in arguments.models:
        for threads in arguments.threads:
            compare(model, threads, arguments)


if __name__ == "__main__":
    main()
