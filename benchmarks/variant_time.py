"""Time of a training step with each variant, as a ratio to the baseline's.

    python benchmarks/variant_time.py                      # all of them, and the page
    python benchmarks/variant_time.py --parts optimizer    # measure some parts again
    python benchmarks/variant_time.py --pages              # write the page again from the table
    python benchmarks/variant_time.py --smoke --output DIR # the smallest models: does it run?

The baseline is the GPT of docs/variants.md in the tiny size of the experiments. The variants of a part
and the baseline take turns in one process, and a turn in which other processes used much of the
machine is thrown away. The table, with the processor and the commit, and the page that is made of it
go to docs/results/measured/variant_time. With --parts, the rows of other parts stay in the table: each
part has a baseline of its own, and the page says which parts were measured together.
"""

import argparse
import csv
import importlib.metadata
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from claims.models import training_step
from claims.turns import Row, Settings, take_turns, timing_columns

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "results" / "measured" / "variant_time"
TABLE, PAGE = "measurements.csv", "README.md"
BASELINE, AGAIN = "baseline", "baseline again"
# Names of docs/variants.md, by part; those that differ only in a constant are left out.
VARIANTS = {
    "normalisation": (
        *("rmsnorm", "unit-norm", "gated-norm", "centering", "dynamic-tanh", "dynamic-erf", "batchnorm", "no-norm"),
    ),
    "placement": (
        *("post", "sandwich", "reordered", "layernorm-scaling", "layerscale", "x0-shortcut", "deepnorm"),
        *("parallel", "parallel-shared-norm", "no-residual"),
    ),
    "streams and earlier outputs": (
        *("static-hyper-connections", "hyper-connections", "manifold-hyper-connections", "depth-attention"),
        *("denseformer", "u-net-skips", "multiway-dynamic-dense", "resi-dual", "interpolated", "ngpt"),
    ),
    "layers with the same weights": ("shared-layers", "looped-layers", "input-reinjection"),
    "position": ("nope", "sinusoidal", "rope", "partial-rotary", "p-rope", "alibi", "relative-bias", "shaw"),
    "attention": (
        *("grouped-query", "multi-query", "window", "qk-norm", "cosine", "sinks", "attention-softcap", "performer"),
        *(
            "output-gate",
            "head-gate",
            "exclusive",
            "ssmax",
            "softmax-plus-one",
            "sigmoid-attention",
            "forgetting",
            "differential",
            "talking-heads",
            "latent",
            "value-norm",
            "output-norm",
        ),
        *("value-residual", "learned-value-residual", "value-embedding"),
    ),
    "states": (
        *("linear-attention", "retnet", "gated-linear-attention", "hgrn2", "lightning-attention", "deltanet"),
        *("gated-deltanet", "kimi-delta-attention", "mamba2", "rwkv7", "gated-convolution", "parallel-heads"),
    ),
    "convolutions": ("canon", "primer", "token-shift"),
    "feed-forward": (
        *("relu", "silu", "swiglu", "geglu", "relu-squared", "leaky-relu-squared", "swiglu-clamped", "xielu"),
    ),
    "head and objective": ("untied-head", "logit-softcap", "z-loss", "multi-token"),
}
# Other optimizers than AdamW, and what is added to it.
OPTIMIZER = {
    **{
        name: {"optimizer.kind": name}
        for name in (
            *("muon", "normuon", "muonh", "soap", "sgd", "nadamw", "lion", "adagrad", "adafactor", "ademamix"),
            *("adopt", "stable_adamw", "schedule_free", "lamb"),
        )
    },
    "clipping": {"optimizer.clip_norm": 1.0},
    "cautious decay": {"optimizer.weight_decay": 0.1, "optimizer.weight_decay_form": "cautious"},
    "moving average": {"optimizer.ema_steps": 100},
}
HEADINGS = {
    "part": "part",
    "variant": "variant",
    "ratio": "time, relative to the baseline",
    "ratio_low": "lower quartile",
    "ratio_high": "upper quartile",
    "flops": "FLOPs, relative",
    "ms": "ms",
}


def changes_by_part() -> dict[str, dict[str, Mapping[str, Any]]]:
    """Returns {part: {variant: fields that turn the baseline into it}}."""
    from zoo.variants import VARIANTS as TABLE_OF_VARIANTS

    by_name = {variant.name: variant.changes for variant in TABLE_OF_VARIANTS}
    return {part: {name: by_name[name] for name in names} for part, names in VARIANTS.items()} | {
        "optimizer": OPTIMIZER
    }


def measure_part(part: str, changes: Mapping[str, Mapping[str, Any]], settings: Settings) -> list[Row]:
    """Returns the rows of a part: the baseline, the same once more as a control, and each variant."""
    from zoo.lab.sizes import SIZES

    size = {**SIZES["tiny"], "data.tokenizer.kind": "bytes"}
    length = size.pop("data.sequence_length")
    tokens = length * size.pop("data.batch_size")
    if settings.smoke:
        size |= {"model.dim": 16, "model.num_layers": 2}
        length, tokens = 16, 32
    made = {
        name: training_step({**size, **fields}, length, tokens) for name, fields in {BASELINE: {}, **changes}.items()
    }
    steps: dict[str, Callable[[], None]] = {name: step for name, (step, _) in made.items()}
    times = take_turns({BASELINE: steps[BASELINE], AGAIN: steps[BASELINE], **steps}, settings)
    flops = {name: number / made[BASELINE][1] for name, (_, number) in made.items()} | {AGAIN: 1.0}
    return [
        {"part": part, "variant": name, **timing_columns(times, name, BASELINE), "flops": flops[name]} for name in times
    ]


def circumstances(settings: Settings) -> dict[str, Any]:
    """Returns the columns that are the same in every row: how and where it was measured."""
    import jax

    from zoo.training.records.processor import processor_name
    from zoo.training.records.run_record import git_commit

    return {
        "rounds": settings.rounds,
        "calls": settings.calls,
        "smoke": int(settings.smoke),
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
        "processor": processor_name(),
        "jax": importlib.metadata.version("jax"),
        "commit": git_commit(),
    }


def other_parts(parts: Sequence[str], folder: Path) -> list[Row]:
    """Returns the rows that the table has of other parts."""
    if not (folder / TABLE).exists():
        return []
    with open(folder / TABLE, encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["part"] not in parts]


def write_table(rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Writes measurements.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / TABLE, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: f"{value:.5g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows
        )


def page(rows: Sequence[Mapping[str, str]]) -> str:
    """Returns the page in Markdown, from the rows of measurements.csv."""
    first = rows[0]
    small = " **This is a trial with the smallest models; its times mean nothing.**" if first["smoke"] == "1" else ""
    text = (
        "The decoder is the baseline of [the variants](../../../variants.md), a GPT, in the tiny size of the "
        "experiments (4 layers of width 64, 16 rows of 64 bytes, float32). The variants of a part and the baseline "
        "take turns in one process; turns beside other work are thrown away. A ratio is the median over turns of a "
        "variant's time to the baseline's in the same turn. The baseline was called once more in each turn: a difference "
        f"from 1 that is smaller than that of its ratio to itself shows nothing.{small}"
    )
    doubts = "What a variant costs on a CPU says little about accelerators."
    if any(row["part"] == "optimizer" for row in rows):
        doubts += (
            " An update takes the same time for any number of tokens in a batch, so the ratio of an optimizer falls as "
            "batches grow."
        )
    where = f"To repeat: `python benchmarks/variant_time.py`. All figures: [{TABLE}]({TABLE}).\n\n{_measured(rows)}"
    table = [
        f"| {' | '.join(HEADINGS.values())} |",
        f"|{' --- |' * len(HEADINGS)}",
        *(
            "| "
            + " | ".join(row[key] if key in ("part", "variant") else f"{float(row[key]):.2f}" for key in HEADINGS)
            + " |"
            for row in rows
        ),
    ]
    return "\n\n".join(
        ["# Time of a training step with each variant", _wrapped(text), "\n".join(table), _wrapped(doubts), where]
    ) + "\n"  # fmt: skip


def _measured(rows: Sequence[Mapping[str, str]]) -> str:
    """Returns a line for the parts that were measured together: where and how, and what two times of
    the baseline differ by.
    """
    together: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for row in rows:
        together.setdefault(tuple(row[name] for name in ("device", "processor", "jax", "rounds", "calls")), []).append(
            row
        )
    lines = []
    for (device, processor, jax, rounds, calls), members in together.items():
        again = [row for row in members if row["variant"] == AGAIN]
        low, high = min(float(row["ratio_low"]) for row in again), max(float(row["ratio_high"]) for row in again)
        commits = " and ".join(dict.fromkeys(row["commit"] for row in members))
        lines.append(
            f"* {', '.join(dict.fromkeys(row['part'] for row in members))}: {rounds} turns of {calls} steps on {device} "
            f"({processor}), jax {jax}, at commit {commits}; the ratio of the baseline to itself lies between {low:.2f} "
            f"and {high:.2f} (quartiles)."
        )
    return "\n".join(_wrapped(line, subsequent_indent="  ") for line in lines)


def write_page(folder: Path) -> None:
    """Writes README.md from measurements.csv."""
    with open(folder / TABLE, encoding="utf-8", newline="") as file:
        (folder / PAGE).write_text(page(list(csv.DictReader(file))), encoding="utf-8")


def _wrapped(text: str, subsequent_indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=subsequent_indent, break_long_words=False, break_on_hyphens=False)


def main() -> None:
    """Command line."""
    defaults, parts = Settings(), (*VARIANTS, "optimizer")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--parts", nargs="+", choices=parts, default=parts, metavar="PART", help=f"of {', '.join(parts)}"
    )
    parser.add_argument("--output", type=Path, default=FOLDER, help="default: docs/results/measured/variant_time")
    parser.add_argument("--pages", action="store_true", help="measure nothing; write the page again")
    parser.add_argument("--rounds", type=int, default=defaults.rounds, help="clean turns (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=defaults.calls, help="steps in a turn (default: %(default)s)")
    parser.add_argument(
        "--foreign",
        type=float,
        default=defaults.foreign,
        help="largest share of the machine that others may use in a turn (default: %(default)s)",
    )
    parser.add_argument("--smoke", action="store_true", help="the smallest models, one turn, beside any other work")
    arguments = parser.parse_args()
    if arguments.output == FOLDER and arguments.smoke:
        parser.error("--smoke would replace the table; name another folder with --output")
    if not arguments.pages:
        settings = (
            Settings(1, 1, 100.0, True)
            if arguments.smoke
            else Settings(arguments.rounds, arguments.calls, arguments.foreign)
        )
        changes, where = changes_by_part(), circumstances(settings)
        rows = other_parts(arguments.parts, arguments.output)
        for part in arguments.parts:
            began = time.perf_counter()
            rows += [row | where for row in measure_part(part, changes[part], settings)]
            write_table(sorted(rows, key=lambda row: parts.index(row["part"])), arguments.output)
            print(f"{part}: {len(changes[part])} variants ({time.perf_counter() - began:.0f} s)", flush=True)
    write_page(arguments.output)
    print(arguments.output / PAGE)


if __name__ == "__main__":
    main()
