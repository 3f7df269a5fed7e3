"""The section of docs/parity.md on what an import and an export take, which
`benchmarks/interchange.py` measures.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "interchange.py"
# The most that a command may take, in sizes of its checkpoint. What Orbax keeps of what it read
# differs from time to time.
LIMITS = {"import": 2.0, "export": 2.5}
Figures = Mapping[str, tuple[str, ...]]
ROW = re.compile(r"\| `zoo (\w+)` \| ([\d,]+) MB \| ([\d,]+) MB \| ([\d.]+) \| ([\d.]+) s \|")
INTRODUCTION = """
## Memory of an import

A checkpoint of BERT base's size, 110,106,428 random numbers in one safetensors file, imported and exported again: the largest resident
set of the command's process, less that of a process that only imports the same modules and starts the device, and the seconds that the
command takes from its start on two processors (`python benchmarks/interchange.py`).

| Command | Checkpoint | Peak memory | Times the checkpoint | Time |
| --- | --- | --- | --- | --- |
"""


def measure() -> dict[str, tuple[str, ...]]:
    """The cells of each command's line."""
    ran = subprocess.run([sys.executable, BENCHMARK, "--json"], check=True, capture_output=True, text=True)
    found, cells = json.loads(ran.stdout), {}
    for command in LIMITS:
        size, more = found["checkpoint"], found[f"{command}_more"]
        cells[command] = (
            f"{size / 1e6:,.0f}",
            f"{more / 1e6:,.0f}",
            f"{more / size:.2f}",
            f"{found[f'{command}_seconds']:.0f}",
        )
        print(f"{command}: {more / size:.2f} times the checkpoint", flush=True)
        if not more <= LIMITS[command] * size:
            raise SystemExit(f"{command} takes more than {LIMITS[command]:g} times the checkpoint")
    return cells


def written(text: str) -> dict[str, tuple[str, ...]]:
    """What a file has of them."""
    return {command: tuple(cells) for command, *cells in ROW.findall(text)}


def section(figures: Figures) -> str:
    """The section, with a line for every command."""
    return INTRODUCTION + "".join(
        f"| `zoo {command}` | {size} MB | {more} MB | {times} | {seconds} s |\n"
        for command, (size, more, times, seconds) in ((command, figures[command]) for command in LIMITS)
    )
