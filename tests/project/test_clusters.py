"""The examples of docs/clusters.md, as far as they can be checked without a cluster."""

import argparse
import ast
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from zoo.arguments import Parser
from zoo.cli.sweeps import launch_options, run
from zoo.lab.experiment import load_experiment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/clusters.md").read_text(encoding="utf-8")
MANIFESTS = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL)]
KUBERAY, SKYPILOT = MANIFESTS
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def parsed(command):
    """The flags of a command `zoo run`, which are checked as for a dry run."""
    parser = Parser(prog="zoo")
    run.add_parser(parser.add_subparsers())
    words = shlex.split(command)
    assert words[:2] == ["zoo", "run"]
    args = parser.parse_args([*words[1:], "--dry-run"])
    launch_options.check(args)
    assert load_experiment(args.experiment)
    return args


@pytest.mark.parametrize("command", re.findall(r"^zoo run [^#\n]*--(?:ray|slurm)[^#\n]*", PAGE, re.MULTILINE))
def test_commands_can_be_parsed(command):
    assert isinstance(parsed(command), argparse.Namespace)


def test_submitit_example():
    (words,) = re.findall(r"^SWEEP = (.+)$", PAGE, re.MULTILINE)
    args = parsed(shlex.join(ast.literal_eval(words)))
    # The machine that writes the tasks may have no GPU, and those that train them have.
    assert (args.gpus_per_node, args.emit) == ("1", Path("tasks.jsonl"))


def test_kuberay_example():
    assert (KUBERAY["apiVersion"], KUBERAY["kind"]) == ("ray.io/v1", "RayJob")
    args, cluster = parsed(KUBERAY["spec"]["entrypoint"]), KUBERAY["spec"]["rayClusterSpec"]
    assert args.ray == "auto"
    low, high = re.fullmatch(r"ray>=(.+),<(.+)", EXTRAS["ray"][0]).groups()
    version = [int(part) for part in cluster["rayVersion"].split(".")]
    assert [int(part) for part in low.split(".")] <= version < [int(part) for part in high.split(".")]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        # All nodes share the folder of the sweep, the working directory and the cache.
        (mount,) = container["volumeMounts"]
        assert [volume["name"] for volume in pod["volumes"]] == [mount["name"]]
        (cache,) = container["env"]
        for path in (str(args.output), container["workingDir"], cache["value"]):
            assert Path(path).is_relative_to(mount["mountPath"])
    limits = cluster["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] >= int(args.gpus_per_node)


def test_skypilot_example(tmp_path):
    (tmp_path / "run.sh").write_text(SKYPILOT["run"])
    assert subprocess.run(["bash", "-n", tmp_path / "run.sh"], check=False).returncode == 0
    (command,) = re.findall(r"zoo run .+", SKYPILOT["run"])
    args = parsed(command)
    (mount,) = SKYPILOT["volumes"]
    for path in (args.output, Path(SKYPILOT["envs"]["ZOO_CACHE"])):
        assert path.is_relative_to(mount)
    (names,) = re.findall(r"\.\[(.+)\]", SKYPILOT["setup"])
    assert set(names.split(",")) <= set(EXTRAS)
