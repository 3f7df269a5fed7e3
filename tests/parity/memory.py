"""The section of docs/parity.md on the memory and time of an import and an export, as measured by
`benchmarks/interchange.py`.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "interchange.py"
# The largest allowed peak memory, in multiples of the checkpoint's size. The memory that Orbax keeps
# after reading varies between runs.
LIMITS = {"import": 2.0, "export": 2.5}
Figures = Mapping[str, tuple[str, ...]]
ROW = re.compile(r"\| `zoo (\w+)` \| ([\d,]+) MB \| ([\d,]+) MB \| ([\d.]+) \| ([\d.]+) s \|")
INTRODUCTION = """
## Memory of an import

A checkpoint of BERT base's size, 110,106,428 random numbers in one safetensors file, is imported and exported
again. *Peak memory* is the largest resident set of the command's process, less that of a process that only
imports the same modules and starts the device. *Time* is measured from the start of the command, on two
processors (`python benchmarks/interchange.py`).

| Command | Checkpoint | Peak memory | Times the checkpoint | Time |
| --- | --- | --- | --- | --- |
"""


def measure() -> dict[str, tuple[str, ...]]:
    """Measures the cells of each command's line."""
    completed = subprocess.run([sys.executable, BENCHMARK, "--json"], check=True, capture_output=True, text=True)
    results, cells = json.loads(completed.stdout), {}
    for command in LIMITS:
        size, additional = results["checkpoint"], results[f"{command}_more"]
        cells[command] = (
            f"{size / 1e6:,.0f}",
            f"{additional / 1e6:,.0f}",
            f"{additional / size:.2f}",
            f"{results[f'{command}_seconds']:.0f}",
        )
        print(f"{command}: {additional / size:.2f} times the checkpoint", flush=True)
        if not additional <= LIMITS[command] * size:
            raise SystemExit(f"{command} takes more than {LIMITS[command]:g} times the checkpoint")
    return cells


def written(text: str) -> dict[str, tuple[str, ...]]:
    """Reads the cells from the text of docs/parity.md."""
    return {command: tuple(cells) for command, *cells in ROW.findall(text)}


def section(figures: Figures) -> str:
    """Renders the section, with a line for every command."""
    return INTRODUCTION + "".join(
        f"| `zoo {command}` | {size} MB | {additional} MB | {times} | {seconds} s |\n"
        for command, (size, additional, times, seconds) in ((command, figures[command]) for command in LIMITS)
    )
