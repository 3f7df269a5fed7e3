"""Published sizes on the devices that the docstrings of their configs name: "As it stands, 7b fits on
16 h100, by `zoo plan`."

    python -m publication planned                # plans all of them, a minute each or so
    python -m publication planned llama gemma:2b # plans these, and keeps the other rows

Writes `docs/many_devices/planned_sizes.csv` and the table of docs/many_devices.md. The compilers of
the devices have to be installed (the extras `tpu` and `cuda`); the devices need not be there.
"""

import argparse
import ast
import csv
import io
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from publication.page_tables import refresh_page
from zoo.errors import ConfigError
from zoo.files import write_atomic

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs"
PAGE = ROOT / "docs" / "many_devices.md"
DATA = ROOT / "docs" / "many_devices" / "planned_sizes.csv"
COLUMNS = ("config", "parameters", "devices", "GiB of a device", "of", "parts", "attention", "CPU-s")
COMMAND = "python -m publication planned"

_NAMED = re.compile(r"As it stands, (\S+) fits on (\d+) (\w+), by `zoo plan`")
_ATTENTION = re.compile("fmha|splash")

Row = Mapping[str, str]


class Statement(NamedTuple):
    """A published size, and the devices that its config's docstring names.

    Attributes:
        name: "config:size".
        devices: their number.
        kind: their kind.
    """

    name: str
    devices: int
    kind: str

    @property
    def arguments(self) -> list[str]:
        """Arguments of `zoo plan`."""
        return [self.name, "--devices", str(self.devices), "--device", self.kind]


def statements(folder: Path = CONFIGS) -> list[Statement]:
    """Returns the statements of the docstrings of a folder's configs, by name."""
    found = []
    for file in sorted(folder.glob("*.py")):
        text = " ".join((ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split())
        found += [Statement(f"{file.stem}:{size}", int(devices), kind) for size, devices, kind in _NAMED.findall(text)]
    return found


def plan(statement: Statement) -> tuple[dict[str, Any], float]:
    """Returns what `zoo plan --json` prints, of a process of its own, and the seconds of processor
    time that it took.

    Raises:
        ConfigError: the process failed, or no compiler for the devices is installed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "zoo.cli.main", "plan", *statement.arguments, "--json"]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise ConfigError(f"{statement.name}: zoo plan failed: {done.stderr.strip()[-500:]}")
    found = json.loads(done.stdout)
    if found["simulated"]:
        raise ConfigError(f"{statement.name} cannot be planned for {statement.kind}: {found['simulated']}")
    return found, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(statement: Statement, found: Mapping[str, Any], seconds: float) -> Row:
    """Returns the row of a plan.

    Args:
        statement: the size and the devices.
        found: what `zoo plan --json` prints.
        seconds: of processor time.
    """
    kernels = found["stages"][-1]["measured"]["kernels"]
    calls = sum(count for name, count in kernels.items() if _ATTENTION.search(name))
    # "cudnn (kind full)", and what is said after it.
    attention = ", ".join(dict.fromkeys(line.partition(" (")[0] for line in found["attention"])) or "none"
    cells = (
        statement.name,
        f"{found['parameters']:,}",
        f"{statement.devices} {statement.kind}",
        f"{found['memory'] / 2**30:.2f}",
        f"{found['limit'] / 2**30:.2f}",
        str(found["parts"]),
        f"{attention}: {calls:,.0f} calls" if calls else attention,
        f"{seconds:.0f}",
    )
    return dict(zip(COLUMNS, cells, strict=True))


def read(data: Path = DATA) -> list[Row]:
    """Returns the rows of the last plans."""
    if not data.exists():
        return []
    with open(data, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def chosen(names: Sequence[str], stated: Sequence[Statement]) -> list[Statement]:
    """Returns the statements about configs or sizes; all of them without a name.

    Raises:
        ConfigError: a name that no statement is about.
    """
    wanted = [each for each in stated if not names or {each.name, each.name.partition(":")[0]} & {*names}]
    known = {name for each in stated for name in (each.name, each.name.partition(":")[0])}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"{unknown[0]}: no docstring in configs/ says on which devices it fits")
    return wanted


def problems(rows: Sequence[Row], stated: Sequence[Statement]) -> Iterator[str]:
    """Yields where rows and docstrings differ, and sizes that do not fit."""
    devices = {each.name: f"{each.devices} {each.kind}" for each in stated}
    found = {each["config"]: each for each in rows}
    for name in sorted(devices.keys() ^ found.keys()):
        yield f"{name}: {'no row' if name in devices else 'its docstring names no devices'}"
    for name in sorted(devices.keys() & found.keys()):
        each = found[name]
        if each["devices"] != devices[name]:
            yield f"{name}: planned on {each['devices']}, and its docstring names {devices[name]}"
        if float(each["GiB of a device"]) > float(each["of"]):
            yield f"{name}: {each['GiB of a device']} GiB do not fit in {each['of']} GiB"


def write(names: Sequence[str] = ()) -> Iterator[str]:
    """Plans the statements about configs or sizes, writes their rows and the page after each, and
    yields a line for each.

    Raises:
        ConfigError: see `chosen` and `plan`.
    """
    stated = statements()
    for statement in chosen(names, stated):
        found, seconds = plan(statement)
        new = row(statement, found, seconds)
        kept = {each["config"]: each for each in read()} | {statement.name: new}
        DATA.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(DATA, _as_csv([kept[each.name] for each in stated if each.name in kept]))
        refresh_page(PAGE)
        yield ", ".join(new.values()) + ("" if found["fits"] else ": DOES NOT FIT")


def _as_csv(rows: Sequence[Row]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Registers the command."""
    parser = commands.add_parser("planned", help="plan published sizes on the devices that their docstrings name")
    parser.add_argument("names", nargs="*", metavar="CONFIG[:SIZE]", help="default: all that name devices")
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Plans published sizes, writes the table, and prints a line for each."""
    for line in write(options.names):
        print(line, flush=True)
    return 0
