"""The GPUs assigned to processes of the local pool, on simulated machines: a stand-in for nvidia-smi
lists their GPUs.
"""

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from zoo import config
from zoo.errors import ConfigError
from zoo.lab.launch import process_pool
from zoo.lab.launch.display import PlainDisplay
from zoo.lab.launch.populations import PopulationPolicy
from zoo.lab.launch.progress import SweepProgress
from zoo.lab.launch.sweep_folder import write_status
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.gpu_assignment import GpuAssignment
from zoo.lab.planning.plan import make_plan
from zoo.training.runtime import gpus

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")
UUIDS = ("GPU-8f2c", "MIG-41aa")
NUMBERED = ("0", "1", "2", "3")


@pytest.fixture
def machine(monkeypatch, tmp_path_factory):
    """Simulates a machine: machine(script of nvidia-smi, device files, environment variables)."""

    def make(program="exit 9", files=(), **variables):
        folder = tmp_path_factory.mktemp("bin")
        if program is not None:
            (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{program}\n")
            (folder / "nvidia-smi").chmod(0o755)
            monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        else:
            monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setattr(gpus, "glob", SimpleNamespace(glob=lambda pattern: list(files)))
        for name in (
            "CUDA_VISIBLE_DEVICES",
            "JAX_PLATFORMS",
            "XLA_CLIENT_MEM_FRACTION",
            "XLA_PYTHON_CLIENT_MEM_FRACTION",
        ):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return make


def listing(number):
    """The script of nvidia-smi for a machine with this many GPUs, the first one divided by MIG."""
    lines = [f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: GPU-{index}f3c)" for index in range(number)]
    lines[1:1] = ["  MIG 1g.10gb     Device  0: (UUID: MIG-6a1c)"] if number else []
    return 'test "$1" = -L || exit 2\n' + "\n".join(f"echo '{line}'" for line in lines)


@pytest.mark.parametrize(("program", "files", "variables", "found"), [
    (listing(2), (), {}, ("0", "1")),
    (listing(0), (), {}, ()),
    (listing(2), ("/dev/nvidia0",), {}, ("0", "1")),
    (None, ("/dev/nvidia0", "/dev/nvidia3"), {}, ("0", "1")),
    ("exit 9", ("/dev/nvidia0",), {}, ("0",)),
    (None, (), {}, ()),
    (listing(4), (), {"CUDA_VISIBLE_DEVICES": "2,0"}, ("2", "0")),
    (listing(4), (), {"CUDA_VISIBLE_DEVICES": " 3 , 1 "}, ("3", "1")),
    (listing(4), (), {"CUDA_VISIBLE_DEVICES": "1,1"}, ("1",)),
    (listing(4), (), {"CUDA_VISIBLE_DEVICES": ",".join(UUIDS)}, UUIDS),
    (None, ("/dev/nvidia0",), {"CUDA_VISIBLE_DEVICES": UUIDS[0]}, UUIDS[:1]),
    # CUDA uses the devices before the first one that does not exist.
    (listing(2), (), {"CUDA_VISIBLE_DEVICES": "0,2,1"}, ("0",)),
    (listing(2), (), {"CUDA_VISIBLE_DEVICES": "1,-1,0"}, ("1",)),
    (listing(2), (), {"CUDA_VISIBLE_DEVICES": ""}, ()),
    (listing(2), (), {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, ()),
    # The variable has no effect on a machine without GPUs.
    (None, (), {"CUDA_VISIBLE_DEVICES": "0,1"}, ()),
    (None, (), {"CUDA_VISIBLE_DEVICES": UUIDS[0]}, ()),
    (listing(2), (), {"JAX_PLATFORMS": "cpu"}, ()),
    (listing(2), (), {"JAX_PLATFORMS": "cpu,cuda"}, ()),
    (listing(2), (), {"JAX_PLATFORMS": "cuda,cpu"}, ("0", "1")),
    (listing(2), (), {"JAX_PLATFORMS": ""}, ("0", "1")),
])  # fmt: skip
def test_visible_gpus(machine, program, files, variables, found):
    machine(program, files, **variables)
    assert gpus.visible_gpus() == found


def test_a_driver_that_does_not_answer(machine, monkeypatch):
    machine("exec sleep 20", ("/dev/nvidia0",))
    monkeypatch.setattr(gpus, "LISTING_SECONDS", 0.2)
    assert gpus.visible_gpus() == ("0",)


def resolved(**mesh):
    sizes = {f"mesh.{name}": size for name, size in mesh.items()}
    kind = {"model.ffn.kind": "moe"} if "expert" in mesh else {}
    return config.resolve(config.override(config.default(), {"data.batch_size": 48, **kind, **sizes}))


@pytest.mark.parametrize(("jobs", "names", "devices", "fraction"), [
    (2, NUMBERED[:2], ["0", "1"], None),
    (2, NUMBERED, ["0", "1"], None),
    (4, NUMBERED[:2], ["0", "1", "0", "1"], "0.450"),
    (3, NUMBERED[:2], ["0", "1", "0"], "0.450"),
    (3, NUMBERED[:1], ["0", "0", "0"], "0.300"),
    (7, ("3", "1"), ["3", "1", "3", "1", "3", "1", "3"], "0.225"),
    (3, UUIDS, [*UUIDS, UUIDS[0]], "0.450"),
])  # fmt: skip
def test_each_process_has_one_gpu(machine, jobs, names, devices, fraction):
    machine()
    memory = {} if fraction is None else {"XLA_CLIENT_MEM_FRACTION": fraction}
    given = [GpuAssignment(jobs, names).variables(slot, resolved()) for slot in range(jobs)]
    assert given == [{"CUDA_VISIBLE_DEVICES": device, **memory} for device in devices]


@pytest.mark.parametrize("name", ["XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"])
def test_a_memory_fraction_that_is_set_is_kept(machine, name):
    machine(**{name: ".2"})
    assignment = GpuAssignment(3, ("0",))
    assert assignment.variables(1, resolved()) == {"CUDA_VISIBLE_DEVICES": "0"}
    assert "memory" not in assignment.describe()


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("mesh", [{}, {"data": 2, "fsdp": 2}])
def test_without_gpus_nothing_is_set_or_refused(machine, jobs, mesh):
    machine()
    assignment = GpuAssignment(jobs, ())
    assert assignment.variables(0, resolved(**mesh)) == {}
    assert assignment.problems([SimpleNamespace(config=resolved(**mesh))]) == []
    assert assignment.describe() == ""


@pytest.mark.parametrize(("mesh", "devices"), [
    ({}, None),
    ({"fsdp": 2}, None),
    ({"fsdp": -1}, None),
    ({"data": 2, "fsdp": -1}, None),
    ({"data": 4}, None),
    ({"data": 2, "tensor": 2}, None),
    ({"data": 1}, "5"),
    ({"data": 2}, "5,4"),
    ({"data": 1, "fsdp": 3}, "5,4,7"),
])  # fmt: skip
def test_a_single_process_has_all_gpus_or_those_of_its_mesh(machine, mesh, devices):
    machine()
    given = GpuAssignment(1, ("5", "4", "7", "6")).variables(0, resolved(**mesh))
    assert given == ({} if devices is None else {"CUDA_VISIBLE_DEVICES": devices})


@pytest.mark.parametrize(("jobs", "number", "mesh", "problem"), [
    (2, 4, {}, None),
    (2, 4, {"data": 1}, None),
    (1, 4, {"data": 4}, None),
    (1, 4, {"fsdp": 2, "tensor": 2}, None),
    (1, 1, {}, None),
    (2, 4, {"fsdp": 2}, "mesh.fsdp=2 needs 2 GPUs, but with --jobs 2 each process has one: use --jobs 1, or a mesh of one device"),
    (4, 4, {"data": 2, "tensor": 2}, "mesh.data=2 x mesh.tensor=2 needs 4 GPUs, but with --jobs 4 each process has one: use --jobs 1, or a mesh of one device"),
    (2, 1, {"tensor": 2}, "mesh.tensor=2 needs 2 GPUs, but with --jobs 2 each process has one: use a mesh of one device"),
    (1, 1, {"data": 2}, "mesh.data=2 needs 2 GPUs, but there is 1: use a mesh of at most 1"),
    (1, 4, {"data": 3, "expert": 2}, "mesh.data=3 x mesh.expert=2 needs 6 GPUs, but there are 4: use a mesh of at most 4"),
    (1, 4, {"data": 2, "fsdp": 3}, "mesh.data=2 x mesh.fsdp=3 needs 6 GPUs, but there are 4: use a mesh of at most 4"),
])  # fmt: skip
def test_a_mesh_must_fit_the_gpus_of_a_process(machine, jobs, number, mesh, problem):
    machine()
    runs = [SimpleNamespace(config=resolved()), *[SimpleNamespace(config=resolved(**mesh))] * 2]
    assert GpuAssignment(jobs, NUMBERED[:number]).problems(runs) == ([] if problem is None else [problem])


@pytest.mark.parametrize(("jobs", "names", "line"), [
    (1, ("0",), "GPU 0: one process at a time"),
    (1, ("0", "1"), "GPUs 0, 1: one process at a time, with all of them or as many as its mesh asks for"),
    (2, ("0", "1"), "GPUs 0, 1: one process at a time on each"),
    (2, ("0", "1", "2"), "GPUs 0, 1: one process at a time on each; GPU 2: not used"),
    (2, ("0",), "GPU 0: 2 processes at a time, each with 0.45 of its memory"),
    (3, UUIDS, "GPU GPU-8f2c: 2 processes at a time; GPU MIG-41aa: one process at a time, each with 0.45 of its memory"),
    (4, ("0", "1"), "GPUs 0, 1: 2 processes at a time on each, each with 0.45 of its memory"),
])  # fmt: skip
def test_description_of_the_assignment(machine, jobs, names, line):
    machine()
    assert GpuAssignment(jobs, names).describe() == line


@pytest.fixture
def environments(monkeypatch, command_line):
    """The environments of the processes that `zoo run` starts, in the order of their start."""
    found = []
    started = process_pool.subprocess.Popen

    def start(arguments, env, **options):
        found.append(env)
        return started(arguments, **options)

    monkeypatch.setattr(process_pool.subprocess, "Popen", start)
    return found


def assigned(environments):
    return [environment.get("CUDA_VISIBLE_DEVICES") for environment in environments]


def test_a_sweep_on_two_gpus(machine, command_line, environments):
    machine(listing(2))
    code, out, err = command_line("run", "norms.py", "--jobs", "3")
    assert (code, err) == (0, "")
    # Stand-ins end at once, so all slots are free whenever the pool starts runs.
    assert assigned(environments) == ["0", "1", "0", "0", "1", "0", "0", "1"]
    assert {environment["XLA_CLIENT_MEM_FRACTION"] for environment in environments} == {"0.450"}
    line = "GPU 0: 2 processes at a time; GPU 1: one process at a time, each with 0.45 of its memory"
    assert out.splitlines().count(line) == 1
    assert out.index(line) < out.index("start ")
    # Nothing is left to train.
    code, out, _ = command_line("run", "norms.py", "--jobs", "3")
    assert (code, "GPU" in out) == (0, False)


def test_a_sweep_on_the_gpus_of_cuda_visible_devices(machine, command_line, environments):
    machine(listing(4), CUDA_VISIBLE_DEVICES="3,1")
    assert command_line("run", "norms.py", "--jobs", "2")[0] == 0
    assert assigned(environments) == ["3", "1"] * 4
    assert not any("XLA_CLIENT_MEM_FRACTION" in environment for environment in environments)


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_sweep_on_a_cpu(machine, command_line, environments, jobs):
    machine()
    code, out, _ = command_line("run", "norms.py", "--jobs", jobs)
    assert (code, "GPU" in out) == (0, False)
    assert len(environments) == 8
    own = {"PYTHONUNBUFFERED": "1", "PJRT_NPROC": "1"}
    assert all(environment == {**os.environ, **own} for environment in environments)


@pytest.mark.parametrize(("changes", "devices"), [((), "1,2"), (("--set", "mesh.data=1"), "1")])
def test_a_sweep_of_one_run_at_a_time(machine, command_line, environments, changes, devices):
    machine(listing(3), CUDA_VISIBLE_DEVICES="1,2")
    code, out, _ = command_line("run", "norms.py", *changes)
    assert code == 0
    assert assigned(environments) == [devices] * 8
    assert "GPUs 1, 2: one process at a time, with all of them or as many as its mesh asks for" in out


@pytest.mark.parametrize(("jobs", "devices"), [("1", [None, None]), ("2", ["0", "1"])])
def test_gpus_of_populations(machine, command_line, environments, monkeypatch, jobs, devices):
    machine(listing(2))
    script = "import subprocess, sys\nfor folder in sys.argv[2:]: subprocess.check_call([sys.executable, sys.argv[1], '--config', folder + '/config.json', '--workdir', folder])"
    monkeypatch.setattr(
        PopulationPolicy,
        "command",
        lambda self, folders: [sys.executable, "-c", script, fake.__file__, *map(str, folders)],
    )
    assert command_line("run", "norms.py", "--population", "--jobs", jobs)[0] == 0
    assert assigned(environments) == devices


@pytest.mark.parametrize("words", [
    (), ("--dry-run",), ("--population",), ("--tune", "optimizer.learning_rate=1e-3,1e-2"), ("--tune", "optimizer.learning_rate=1e-3,1e-2", "--fresh"),
])  # fmt: skip
def test_a_mesh_that_does_not_fit_is_refused_before_anything_starts(
    machine, command_line, environments, tmp_path, words
):
    machine(listing(4))
    (tmp_path / "runs" / "norms-tiny").mkdir(parents=True)
    (tmp_path / "runs" / "norms-tiny" / "earlier.log").write_text("")
    code, _, err = command_line(
        "run", "norms.py", "--set", "mesh.fsdp=2", "--jobs", "2", *words, "--output", "runs/norms-tiny"
    )
    assert code == ConfigError.exit_code
    assert err == (
        "error: mesh.fsdp=2 needs 2 GPUs, but with --jobs 2 each process has one: use --jobs 1, or a mesh of one device\n"
    )
    assert environments == []
    assert [path.name for path in (tmp_path / "runs").rglob("*")] == ["norms-tiny", "earlier.log"]


def test_a_mesh_is_not_checked_against_local_gpus_with_slurm(machine, command_line):
    machine(listing(1))
    code, _, err = command_line("run", "norms.py", "--set", "mesh.fsdp=2", "--jobs", "2", "--slurm", "--dry-run")
    assert (code, err) == (0, "")


class FakeProcess:
    """Stands in for `WarmProcess`. Class attributes set how many polls an arm takes, which arms fail,
    and which leave a plug-in in their process.
    """

    POLLS, FAIL, LEAVE_A_PLUGIN, started = {}, (), (), ()

    def __init__(self, environment, inherited, log):
        self.environment, self.plugins, self.returncode, self.alive = dict(environment), None, None, True
        self.device, self.trained, self.pid = environment.get("CUDA_VISIBLE_DEVICES"), "", os.getpid()
        assert self.device not in [other.device for other in FakeProcess.started if other.alive]
        FakeProcess.started = (*FakeProcess.started, self)

    def train(self, folder, plugins):
        self.folder, self.arm = folder, folder.name[len("x=")]
        self.plugins = ("one.py",) if self.arm in self.LEAVE_A_PLUGIN else plugins
        self.trained, self.left, self.returncode = self.trained + self.arm, self.POLLS.get(self.arm, 1), None
        return True

    def poll(self):
        self.left -= 1
        if self.left <= 0:
            self.alive = self.arm not in self.FAIL
            self.returncode = 0 if self.alive else 1
            write_status(self.folder, "done" if self.alive else "failed", fake.STEPS, "")
        return self.returncode

    @property
    def usable(self):
        return self.alive

    def wait(self):
        self.alive = False


@pytest.fixture
def pool(machine, monkeypatch, tmp_path):
    """Trains arms a to f on the GPUs 0 to 3, of which each process has one; returns the processes in
    the order of their start, as (GPU, the arms that it trained).
    """
    machine()
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    monkeypatch.setattr(process_pool, "WarmProcess", FakeProcess)
    monkeypatch.setattr(process_pool, "POLL_SECONDS", 0)
    monkeypatch.setattr(FakeProcess, "started", ())

    def go(jobs, data=(-1,) * 6, **behaviour):
        for name, value in behaviour.items():
            monkeypatch.setattr(FakeProcess, name, value)
        arms = {
            arm: {"schedule.warmup_steps": number, "mesh.data": size}
            for number, (arm, size) in enumerate(zip("abcdef", data))
        }
        runs = make_plan(fake.experiment(factors={"x": arms}, contrasts=(), seeds=(0,))).runs
        quiet = PlainDisplay(Console(file=io.StringIO()), SweepProgress(tmp_path, runs, runs, jobs, "eval/loss"))
        lock = SimpleNamespace(record_children=list, descriptor=0)
        states = process_pool.ProcessPool(runs, tmp_path, jobs, lock, quiet, None, NUMBERED).run()
        assert len(states) == 6
        assert not any(process.alive for process in FakeProcess.started)
        return [(process.device, process.trained) for process in FakeProcess.started]

    return go


def test_a_process_keeps_its_gpu(pool):
    assert pool(2, POLLS={"a": 3}) == [("0", "ae"), ("1", "bcdf")]


def test_a_new_process_gets_the_gpu_of_the_process_that_ended(pool):
    assert pool(2, POLLS={"a": 9}, FAIL="b") == [("0", "a"), ("1", "b"), ("1", "cdef")]


@pytest.mark.parametrize(("behaviour", "processes"), [
    ({"LEAVE_A_PLUGIN": "ab"}, [("0", "a"), ("1", "b"), ("0", "ce"), ("1", "df")]),
    ({"LEAVE_A_PLUGIN": "a"}, [("0", "a"), ("1", "bcf"), ("0", "de")]),
    ({"LEAVE_A_PLUGIN": "a", "FAIL": "b"}, [("0", "a"), ("1", "b"), ("1", "cf"), ("0", "de")]),
])  # fmt: skip
def test_unusable_processes_end_before_their_gpu_is_reused(pool, behaviour, processes):
    """A process that cannot be used for the next run ends before another one starts on its GPU."""
    assert pool(2, **behaviour) == processes


def test_runs_share_a_process_if_their_meshes_need_the_same_gpus(pool):
    assert pool(1, (-1, 2, 2, -1, -1, -1)) == [(None, "a"), ("0,1", "bc"), (None, "def")]
