"""`zoo run --ray` and `zoo run --emit`, with stand-ins for training and for Ray."""

import contextlib
import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.ray_stand_in import Ray
from zoo import config
from zoo.lab.launch import attempt, ray_pool, workflow
from zoo.training.runtime.folder_lock import lock_run_folder

stages = config.import_file(Path(__file__).with_name("test_run_stages.py"), "helper")
fake = stages.fake
MIB = 1 << 20


@pytest.fixture
def zoo(tmp_path, monkeypatch, command_line):
    """Attempts are made in this process, with the stand-in for training."""
    monkeypatch.setattr(attempt, "train_command", fake.command)
    monkeypatch.setattr(
        attempt, "subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": without_options(fake.Popen)})
    )
    (tmp_path / "staged.py").write_text(stages.FILE)
    return command_line


def without_options(popen):
    def start(arguments, stdout, env, **options):
        return popen(arguments, stdout=stdout)

    return start


def make_attempt(argv):
    """Makes the attempt of a task, as its scheduler would."""
    assert argv[:3] == [sys.executable, "-m", "zoo.lab.launch.attempt"]
    return attempt.main(argv[3:])


@pytest.fixture
def ray(monkeypatch):
    def install(**options):
        found = Ray(**options)
        monkeypatch.setitem(sys.modules, "ray", found)
        body = lambda argv, *needed: (make_attempt([word for word in argv if word != "--end-with-parent"]), "")  # noqa: E731
        monkeypatch.setattr(ray_pool, "_task_body", lambda: body)
        return found

    return install


def emitted(path="tasks.jsonl"):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


CURVES = {"pre": (0.0018, 2.0, 0.2), "post": (0.0012, 3.0, 0.2)}


def follow(zoo, *arguments, **losses):
    """Calls `zoo run --emit` and makes its attempts, until nothing is left; returns the numbers of
    tasks, and the output of the last call.
    """
    numbers = []
    while True:
        code, out, err = zoo("run", *arguments, "--emit", "tasks.jsonl", **losses)
        assert (code, err) == (0, "")
        tasks = emitted()
        if not tasks:
            return numbers, out
        numbers.append(len(tasks))
        assert [make_attempt(task["argv"]) for task in tasks] == [0] * len(tasks)


def test_tasks_name_command_folder_resources_and_prerequisites(zoo, tmp_path, monkeypatch):
    code, out, err = zoo("run", "staged.py", "--emit", "tasks.jsonl", "--mem", "2G")
    assert (code, err) == (0, "")
    assert "written: 6 runs to tasks.jsonl, in runs/staged" in out
    body = next((tmp_path / "runs/staged").glob("body-seed0-*")).name
    tasks = {task["name"]: task for task in emitted()}
    assert len(tasks) == 6
    assert list(tasks).index(body) < list(tasks).index("start=trained-seed0")
    folder = tmp_path / "runs/staged/start=trained-seed0"
    assert tasks["start=trained-seed0"] == {
        "name": "start=trained-seed0",
        "argv": [
            sys.executable, "-m", "zoo.lab.launch.attempt", str(folder), f"--directory={tmp_path}", "--threads=1", f"--after={body}",
        ],
        "folder": str(folder),
        "resources": {"gpus": 0, "cpus": 1, "memory": 2048 * MIB},
        "prerequisites": [body],
    }  # fmt: skip
    assert tasks["start=fresh-seed1"]["prerequisites"] == []
    # An attempt needs no working directory of its own.
    monkeypatch.chdir("/")
    for task in tasks.values():
        assert make_attempt(task["argv"]) == 0
    assert Path.cwd() == tmp_path
    code, out, _ = zoo("run", "staged.py", "--emit", "tasks.jsonl")
    assert (code, emitted()) == (0, [])
    assert "report: runs/staged/report.html" in out


def test_a_dry_run_prints_the_tasks_and_writes_nothing(zoo, tmp_path):
    code, out, err = zoo("run", "staged.py", "--emit", "tasks.jsonl", "--dry-run", "--cpus-per-task", "3")
    assert (code, err) == (0, "")
    tasks = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert {task["resources"]["cpus"] for task in tasks} == {3}
    assert "dry run: 6 of 6 runs would be written to tasks.jsonl, in runs/staged" in out
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "tasks.jsonl").exists()
    assert "6 of 6 runs would be handed to Ray" in zoo("run", "staged.py", "--ray", "--dry-run")[1]


def test_memory_follows_from_the_size_of_the_model(zoo):
    zoo("run", "norms.py", "--emit", "tasks.jsonl")
    size = fake.cost(config.resolve(fake.experiment().base)).parameters["total"]
    assert {task["resources"]["memory"] for task in emitted()} == {1024 * MIB + 16 * size}


def test_gpus_follow_from_the_mesh(zoo, monkeypatch):
    zoo("run", "norms.py", "--emit", "tasks.jsonl", "--gpus-per-node", "2")
    assert {(task["resources"]["gpus"], task["resources"]["cpus"]) for task in emitted()} == {(2, 1)}
    assert not [word for task in emitted() for word in task["argv"] if word.startswith("--threads")]
    line = "error: --gpus-per-node 3: the mesh of {} needs a multiple of 2\n"
    found = zoo(
        "run", "norms.py", "--emit", "tasks.jsonl", "--gpus-per-node", "3", "--set", "mesh.tensor=2", "--output", "o"
    )
    assert found[0] == 2
    assert line.format("norm=pre,warm-up=0") in found[2]


def test_ray_starts_tasks_after_their_prerequisites(zoo, ray, tmp_path):
    found = ray()
    code, out, err = zoo("run", "staged.py", "--ray")
    assert (code, err) == (0, "")
    assert out.count("done     ") == 6
    assert "report: runs/staged/report.html" in out
    needed = {name: number for name, (_, number) in found.tasks.items()}
    assert needed["start=trained-seed0"] == 1
    assert needed["start=fresh-seed0"] == 0
    options = found.tasks["start=fresh-seed0"][0]
    assert (options["num_gpus"], options["num_cpus"], options["max_retries"]) == (0, 1, -1)
    assert options["memory"] > 1024 * MIB
    (_, init), last = found.calls
    assert (init["address"], last) == ("local", ("shutdown", {}))
    # Nothing is left, so no cluster is started.
    assert zoo("run", "staged.py", "--ray")[0] == 0
    assert len(found.calls) == 2


@pytest.mark.promise(reason="tuned sweeps are run by each scheduler")
def test_tuning_and_looks_follow_when_the_tasks_have_ended(zoo, ray, tmp_path):
    arguments = (
        "norms.py",
        "--tune",
        "optimizer.learning_rate=0.001,0.002",
        "--until-decided",
        "--seeds",
        "2",
        "--max-seeds",
        "3",
    )
    numbers, out = follow(zoo, *arguments, curves=CURVES)
    # The bracket; the values around its best one; the arms.
    assert numbers[:3] == [4 * 2, 4 * (4 * 3 - 1), 4 * 2]
    assert "report: runs/norms/report.html" in out
    # A cluster of Ray lasts for all of them.
    found, server = ray(), socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{server.getsockname()[1]}"
    assert zoo("run", *arguments, "--output", "other", "--ray", address, curves=CURVES)[::2] == (0, "")
    assert len(found.tasks) == sum(numbers)
    assert [name for name, _ in found.calls] == ["init", "shutdown"]
    assert found.calls[0][1]["address"] == address
    server.close()
    ours, theirs = (json.loads((tmp_path / name / "experiment.json").read_text()) for name in ("runs/norms", "other"))
    assert (ours["tuning"], ours["looks"], ours["seeds"]) == (theirs["tuning"], theirs["looks"], theirs["seeds"])


def test_what_ray_itself_fails_is_the_reason(zoo, ray, tmp_path):
    ray(fails=["start=fresh-seed1"])
    code, out, _ = zoo("run", "staged.py", "--ray")
    assert code == 1
    assert "failed: start=fresh seed 1: 'the cluster has no such machine'" in out
    status = json.loads((tmp_path / "runs/staged/start=fresh-seed1/status.json").read_text())
    assert (status["state"], status["reason"]) == ("failed", "'the cluster has no such machine'")
    assert json.loads((tmp_path / "runs/staged/start=fresh-seed0/status.json").read_text())["state"] == "done"


def test_a_task_that_fails_after_its_run_is_done_leaves_the_status(zoo, ray, tmp_path, monkeypatch):
    ray()

    def body(argv, *needed):
        make_attempt([word for word in argv if word != "--end-with-parent"])
        raise RuntimeError("the machine was lost")

    monkeypatch.setattr(ray_pool, "_task_body", lambda: body)
    code, out, _ = zoo("run", "norms.py", "--ray")
    assert (code, "the machine was lost" in out) == (0, False)
    states = [json.loads(path.read_text())["state"] for path in tmp_path.glob("runs/norms/*/status.json")]
    assert states == ["done"] * 8


def test_the_status_of_a_run_that_another_process_trains_is_left_to_it(zoo, ray, tmp_path):
    ray(fails=["start=fresh-seed1"])
    run = tmp_path / "runs/staged/start=fresh-seed1"
    with contextlib.closing(lock_run_folder(run)):
        code, out, _ = zoo("run", "staged.py", "--ray")
    assert code == 1
    assert "has no such machine'; another process still trains the run" in out
    assert not (run / "status.json").exists()


def test_runs_that_fit_no_machine_are_named(zoo, ray):
    ray(gpus=1)
    out = zoo("run", "norms.py", "--ray", "--gpus-per-node", "2")[1]
    assert out.count("no machine of the Ray cluster has 2 GPUs, 1 cores and 1.0 GiB, as runs ask for") == 1
    assert "no machine" not in zoo("run", "norms.py", "--ray", "--output", "other")[1]


def test_arms_whose_prerequisite_failed_are_failed(zoo, ray, tmp_path):
    ray()
    body = next(run.folder for run in stages.planned().prerequisites if run.seed == 0)
    code, _, _ = zoo("run", "staged.py", "--ray", behaviours={body: ["fail"]})
    assert code == 1
    status = json.loads((tmp_path / "runs/staged/start=trained-seed0/status.json").read_text())
    assert (status["state"], status["reason"]) == (
        "failed",
        f"it starts from {body}, which is failed: the disk is full",
    )
    assert not (tmp_path / "runs/staged/start=trained-seed0/attempts").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--ray", "--slurm"], "--slurm and --ray: a sweep has one scheduler; use one of them"),
        (["--ray", "--population"], "--population trains runs in one process on this machine, and --ray makes each run a task; use one of them"),
        (["--emit", "x", "--jobs", "2"], "--jobs: with --emit the resources of the cluster decide how many runs train at once; leave it out, or set --cpus-per-task"),
        (["--ray", "--time", "3"], "--time: only with --slurm"),
        (["--mem", "3G"], "--mem: only with --slurm, --ray or --emit"),
        (["--emit", "x", "--gpus-per-node", "a100:2"], "--gpus-per-node 'a100:2': with --ray and --emit a number of GPUs, such as 1"),
        (["--emit", "x", "--mem", "much"], "--mem 'much': expected a size such as 16G"),
        (["--emit", "no/x"], "--emit no/x: there is no folder no"),
        (["--ray", "ray://head:10001"], "--ray 'ray://head:10001': expected HOST:PORT or auto; run zoo on a machine of the cluster"),
        (["--ray", "other.py:quick"], "--ray 'other.py:quick': expected HOST:PORT or auto; name the experiment before --ray"),
    ],
)  # fmt: skip
def test_bad_flags_are_reported_in_one_line(zoo, tmp_path, arguments, line):
    code, _, err = zoo("run", "norms.py", *arguments)
    assert (code, err) == (2, f"error: {line}\n")
    assert not list(tmp_path.glob("runs/*/*/attempts"))


def test_ray_that_is_not_installed_is_one_line(zoo, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = zoo("run", "norms.py", "--ray")
    assert code == 2
    assert err.startswith("error: --ray needs the package ray, which cannot be imported (")
    assert err.endswith("): pip install ray\n")
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_cluster_that_does_not_answer_is_one_line(zoo, ray, tmp_path, monkeypatch):
    found = ray()
    # The cluster is looked for before data are read and anything is written.
    monkeypatch.setattr(workflow, "load_data", lambda *arguments, **options: pytest.fail("data are read"))

    def init(**options):
        raise ConnectionError("Could not find any running Ray instance.\nPlease specify the one to connect to")

    found.init = init
    code, _, err = zoo("run", "norms.py", "--ray", "auto")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: --ray auto: no Ray cluster answers: Could not find any running Ray instance. Please ")
    # At an address where nobody listens, Ray itself would try for minutes.
    line = "error: --ray 127.0.0.1:1: no Ray cluster answers: [Errno 111] Connection refused\n"
    assert zoo("run", "norms.py", "--ray", "127.0.0.1:1")[::2] == (2, line)
    assert not (tmp_path / "runs").exists()


def test_the_example_with_submitit_trains_a_sweep(zoo, tmp_path, monkeypatch):
    """The program of docs/clusters.md, with a stand-in for submitit that starts jobs at once."""
    page = (Path(__file__).parents[3] / "docs/clusters.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.+?)^```", page, re.MULTILINE | re.DOTALL)

    class Executor:
        def __init__(self, folder):
            assert "%j" in folder

        def update_parameters(self, **parameters):
            assert parameters["gpus_per_node"] == 1

        def map_array(self, function, values):
            results = [function(value) for value in values]
            return [SimpleNamespace(result=lambda result=result: result) for result in results]

    def sweep(words):
        # The example's experiment is another one.
        assert (words[:2], words[3]) == (["zoo", "run"], "--until-decided")
        code, _, err = zoo("run", "staged.py", *words[4:])
        assert (code, err) == (0, "")
        return code

    monkeypatch.setitem(sys.modules, "submitit", SimpleNamespace(AutoExecutor=Executor))
    monkeypatch.setattr(subprocess, "check_call", sweep)
    monkeypatch.setattr(subprocess, "call", make_attempt)
    exec(compile(program, "clusters.md", "exec"), {})
    states = [json.loads(path.read_text())["state"] for path in tmp_path.glob("runs/staged/*/status.json")]
    assert states == ["done"] * 6
    assert (tmp_path / "runs/staged/report.html").exists()
