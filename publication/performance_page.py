"""Writes what `benchmarks/gpu_suite.py` has measured into the page docs/performance.md.

    python -m publication performance runs/gpu                  # a folder of results
    python -m publication performance runs/gpu --page FILE.md
    python -m publication performance                           # none: the page says so

Only what stands between the page's two marker comments is replaced. Results of dry runs are left out.
"""

import argparse
import datetime
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]
# The programs of benchmarks/ import their modules by these names.
sys.path.append(str(ROOT / "benchmarks"))

from gpu_stages import lines  # noqa: E402
from gpu_stages.table import STAGES  # noqa: E402

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- gpu measurements: begin -->", "<!-- gpu measurements: end -->"
NOTHING = "No GPU has been measured yet."
SOFTWARE = ("jax", "jax-cuda12-plugin", "jax-cuda13-plugin", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "torch")

Line = Mapping[str, Any]


def at(*path: str) -> Callable[[Line], Any]:
    """Returns a function that reads a value of a line, None where it has none."""

    def read(line: Line) -> Any:
        value: Any = line
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    return read


def spread(line: Line) -> str | None:
    """Returns the percentiles 10 and 90 of a line's times."""
    ms = line.get("ms")
    return f"{ms['p10']:.3g} to {ms['p90']:.3g}" if ms else None


def over_plain(line: Line, plain: Line | None) -> float | None:
    """Returns how long a step takes in units of the plain one."""
    if plain is None or "ms" not in plain or "ms" not in line or line["tokens"] != plain["tokens"]:
        return None
    return line["ms"]["mean"] / plain["ms"]["mean"]


def fused_calls(line: Line) -> str | None:
    """Returns how many calls of cuDNN's attention a compiled program has, forwards and backwards."""
    if (calls := line.get("fused_calls")) is None:
        return None
    backward = sum(number for name, number in calls.items() if name.endswith("Backward"))
    return f"{sum(calls.values()) - backward} + {backward}" if calls else "none"


def dates(results: Sequence[Line]) -> str:
    """Returns the days on which results were measured, in UTC."""
    stamps = [line["finished"] for line in results if "finished" in line]
    days = dict.fromkeys(datetime.datetime.fromtimestamp(stamp, datetime.UTC).date().isoformat() for stamp in stamps)
    return " and ".join(days)


# Columns of every table, of which each stage shows those that it fills.
COLUMNS: dict[str, tuple[Callable[[Line], Any], str]] = {
    "ms": (at("ms", "mean"), "{:,.3g}"),
    "p10 to p90": (spread, "{}"),
    "tokens per second": (at("tokens_per_second"), "{:,.0f}"),
    "TFLOP/s": (at("tflops"), "{:,.0f}"),
    "MFU": (at("mfu"), "{:.1%}"),
    "share of the peak": (at("share_of_peak"), "{:.1%}"),
    "ms of each run": (at("ms_each"), "{:,.3g}"),
    "ms of the prompts": (at("prompt_ms"), "{:,.3g}"),
    "seconds": (at("run_s"), "{:,.0f}"),
    "seconds of each run": (at("run_s_each"), "{:,.1f}"),
    "peak GiB": (lambda line: line["peak_bytes"] / 2**30 if line.get("peak_bytes") else None, "{:,.1f}"),
    "temporaries GiB": (lambda line: line["temporary_bytes"] / 2**30 if "temporary_bytes" in line else None, "{:,.1f}"),
    "compiled in s": (lambda line: None if line.get("from_cache") else line.get("compile_s"), "{:,.0f}"),
    "tests passed": (at("tests_passed"), "{}"),
    "not run": (at("tests_not_run"), "{}"),
    "repeated: bit-equal": (at("again_bit_equal"), "{}"),
    "largest difference": (at("again_difference"), "{:.1e}"),
    "continued: bit-equal": (at("resumed_bit_equal"), "{}"),
    "its largest difference": (at("resumed_difference"), "{:.1e}"),
    "cuDNN calls": (fused_calls, "{}"),
    "attention": (lambda line: "; ".join(line.get("attention_kernel", ())) or None, "{}"),
}


def table(stage: str, results: Sequence[Line]) -> list[str]:
    """Returns the table of a stage in Markdown, with a sentence for every cell without a result."""
    columns = dict(COLUMNS)
    if stage == "variants":
        plain = next((line for line in results if line["cell"] == "plain"), None)
        columns = {"time / plain": (lambda line: over_plain(line, plain), "{:.2f}"), **columns}
    measured = [line for line in results if lines.is_done(line) and "out_of_memory" not in line]
    filled = [name for name, (read, _) in columns.items() if any(read(line) is not None for line in measured)]
    found = [f"### {STAGES[stage].meaning[0].upper()}{STAGES[stage].meaning[1:]}", ""]
    if measured:
        found += [" | ".join(["| ", *filled]) + " |", "|---" * (len(filled) + 1) + "|"]
    for line in measured:
        values = [(columns[name][0](line), columns[name][1]) for name in filled]
        texts = ["" if value is None else form.format(_words(value)) for value, form in values]
        found.append("| " + " | ".join([line["cell"], *texts]) + " |")
    found += [""] * bool(measured)
    without = [f"* {line['cell']}: {_why(line)}" for line in results if line not in measured]
    return [*found, *without, *[""] * bool(without)]


def _words(value: Any) -> Any:
    """Returns yes or no for a truth value, text as a table may have it, and anything else as it is."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value.replace("|", "/") if isinstance(value, str) else value


def _why(line: Line) -> str:
    if "out_of_memory" in line:
        return "out of memory"
    # The message of a failure is in the line; it may name folders of the machine.
    return f"not measured, {line['skipped']}" if "skipped" in line else "failed"


def section(results: Sequence[Line]) -> str:
    """Returns what stands between the markers.

    Args:
        results: lines of one kind of machine; those of dry runs are ignored.

    Raises:
        ValueError: the results are of several kinds of devices, or not of an accelerator.
    """
    results = [line for line in results if not line["tiny"]]
    if not any(lines.is_done(line) for line in results):
        return f"{NOTHING} `python benchmarks/gpu_suite.py --out DIR` measures one.\n"
    with_device = [line for line in results if lines.is_done(line) and "device" in line]
    devices = {(line["device"]["kind"], line["device"]["count"]) for line in with_device}
    platforms = {line["device"]["platform"] for line in with_device}
    if len(devices) != 1 or platforms & {"cpu"}:
        raise ValueError(f"a page shows one kind of accelerator, not {sorted(devices)}")
    ((kind, count),) = devices
    versions = [line["versions"] for line in with_device]
    software = [
        f"{name} {', '.join(values)}"
        for name in SOFTWARE
        if (values := dict.fromkeys(str(each[name]) for each in versions if name in each))
    ]
    commits = dict.fromkeys(line["commit"][:12] for line in with_device if line.get("commit"))
    found = [
        f"Measured on {count} x {kind} with {'; '.join(software)}"
        + (f", at {', '.join(commits)}" if commits else "")
        + (f", on {days}" if (days := dates(with_device)) else "")
        + " by `python benchmarks/gpu_suite.py`. Times are means over steps that are dispatched without waiting for any"
        " of them. MFU counts the model's operations, causal attention as half and without what is computed again,"
        " against the device's peak in bfloat16. The calls of cuDNN's attention in the compiled program are counted"
        " forwards + backwards; a loop over layers has those of one layer.",
        "",
    ]
    for stage in STAGES:
        if own := [line for line in results if line["stage"] == stage]:
            found += table(stage, own)
    return "\n".join(found)


def written(page: str, text: str) -> str:
    """Returns a page with the text between its markers.

    Raises:
        ValueError: the page does not have each marker once, in order.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"the page needs the lines {BEGIN} and {END}, once each")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n{text.rstrip()}\n{END}{after}"


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Registers the command."""
    parser = commands.add_parser("performance", help="write the measurements of a GPU into docs/performance.md")
    parser.add_argument("folder", type=Path, nargs="?", help="the suite's --out; none: nothing has been measured")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page (default: %(default)s)")
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Writes the page.

    Raises:
        ConfigError: the folder has no results, or not of one accelerator; or the page has no markers.
    """
    if options.folder and not (options.folder / lines.FILE).is_file():
        raise ConfigError(f"{options.folder} has no {lines.FILE}")
    results = list(lines.newest(options.folder / lines.FILE).values()) if options.folder else []
    try:
        page = written(options.page.read_text(encoding="utf-8"), section(results))
    except ValueError as error:
        raise ConfigError(str(error)) from error
    options.page.write_text(page, encoding="utf-8")
    return 0
