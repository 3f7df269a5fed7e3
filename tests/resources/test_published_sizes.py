"""Published configs fit on the devices that their docstrings name, with their own settings."""

import ast
import json
import re
import subprocess
import sys

import pytest

from tests.resources.test_target_devices import ROOT
from zoo.resources.target_devices import why_not_compiled

NAMED = re.compile(r"As it stands, (\S+) fits on (\d+) (\w+)")


def statements():
    """Returns (config, number of devices, their kind) of every docstring that names some."""
    for file in sorted((ROOT / "configs").glob("*.py")):
        text = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").split())
        for size, devices, kind in NAMED.findall(text):
            yield f"{file.relative_to(ROOT)}:{size}", int(devices), kind


@pytest.mark.aot(reason="published sizes are compiled for accelerators")
@pytest.mark.parametrize(("spec", "devices", "kind"), statements())
def test_published_sizes_fit_as_they_stand(spec, devices, kind):
    if why := why_not_compiled(kind, devices):
        pytest.skip(why)
    command = [
        sys.executable,
        "-m",
        "zoo.cli.main",
        "plan",
        spec,
        "--devices",
        str(devices),
        "--device",
        kind,
        "--json",
    ]
    completed = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert completed.returncode == 0, completed.stderr[-2000:]
    plan = json.loads(completed.stdout)
    assert plan["fits"], (plan["memory"] / 2**30, plan["simulated"])
