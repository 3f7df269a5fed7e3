"""Device memory: the peak that a run records, and the refusal of runs that do not fit."""

from types import SimpleNamespace

import jax
import pytest

from tests.support.small_runs import small
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.resources.abstract_run import abstract_program
from zoo.training import step
from zoo.training.records.status_file import StatusFile
from zoo.training.runtime import device_memory
from zoo.training.runtime.device_memory import check_memory, peak_memory
from zoo.training.state import least_memory
from zoo.training.trainer import run


@pytest.mark.parametrize(("stats", "peak"), [
    ([None, None], None), ([{}], None), ([{"peak_bytes_in_use": 3}, {"peak_bytes_in_use": 5}, None], 5)
])  # fmt: skip
def test_peak_is_that_of_the_fullest_device(monkeypatch, stats, peak):
    devices = [SimpleNamespace(memory_stats=lambda of_one=of_one: of_one) for of_one in stats]
    monkeypatch.setattr(jax, "local_devices", lambda: devices)
    assert peak_memory() == peak


@pytest.mark.parametrize(("peak", "printed"), [(None, ""), (3 * 2**29, ", 1.50 GiB of a device's memory at most")])
def test_finished_run_reports_its_peak_memory(tmp_path, peak, printed):
    lines = []
    StatusFile(tmp_path, tmp_path, 7, lines.append).write_done(7, "0" * 64, 2.0, peak)
    assert lines == [f"done: 7 steps in 2.0 s of training{printed}"]
    assert read_json(tmp_path / "status.json").get("peak_memory") == peak


def test_lower_bound_of_required_memory():
    """Parameters, two moments, gradients, and the input of each block for the rows of one part of a
    batch.
    """
    config = configs.resolve(small(training__accumulation_steps=2))
    program = abstract_program(config)
    parameters = 4 * sum(leaf.size for leaf in jax.tree.leaves(program.abstract_state["params"]))
    needed = least_memory(config, program.abstract_state, program.mesh)
    assert 0 <= needed["parameters and optimizer"] - 3 * parameters < 100
    assert needed["gradients"] == parameters
    data, model = config.data, config.model
    assert needed["activations"] == data.batch_size // 2 * data.sequence_length * model.dim * model.num_layers * 4


@pytest.mark.parametrize("remedy", ["data.batch_size", "mesh.fsdp"])
def test_run_that_cannot_fit_is_refused_before_compilation(tmp_path, monkeypatch, remedy):
    monkeypatch.setattr(device_memory, "device_memory", lambda: 2**20)
    monkeypatch.setattr(step, "initial_state", lambda *arguments: pytest.fail("something was compiled"))
    rows = {"data__batch_size": 4096} if remedy == "data.batch_size" else {"model__dim": 512}
    with pytest.raises(ConfigError) as caught:
        run(small(**rows), tmp_path / "run", lambda line: None)
    (line,) = caught.value.problems
    assert "the run needs at least" in line
    assert "this machine has 0.00 GiB left" in line
    assert remedy in line
    assert not (tmp_path / "run" / "config.json").exists()


def test_available_memory_respects_the_control_group(tmp_path, monkeypatch):
    files = {
        "meminfo": "MemTotal:  9000 kB\nMemAvailable:  6000 kB\nSwapFree:  1000 kB\n",
        "statm": "9000 0 0",
        "cgroup": "0::/job/step\n",
        "job/memory.max": f"{5000 * 1024}\n",
        "job/step/memory.max": "max\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(device_memory, "MEMORY_OF_MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(device_memory, "MEMORY_OF_PROCESS", tmp_path / "statm")
    monkeypatch.setattr(device_memory, "CGROUP_OF_PROCESS", tmp_path / "cgroup")
    monkeypatch.setattr(device_memory, "CGROUPS", tmp_path)
    devices = [SimpleNamespace(platform="cpu")] * 2
    monkeypatch.setattr(jax, "local_devices", lambda: devices)
    assert device_memory.device_memory() == 2500 * 1024
    (tmp_path / "cgroup").write_text("4:cpu:/\n5:memory:/job\n")
    assert device_memory.device_memory() == 3500 * 1024
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.limit_in_bytes").write_text("1024")
    assert device_memory.device_memory() == 512
    for name in ("meminfo", "cgroup"):
        (tmp_path / name).unlink()
    assert device_memory.device_memory() is None
    check_memory({"parameters and optimizer": 2**60})


@pytest.mark.parametrize(("limit", "refused"), [(None, False), (2**30, False), (2**30 - 1, True)])
def test_run_that_exceeds_accelerator_memory_is_refused(monkeypatch, limit, refused):
    device = SimpleNamespace(platform="gpu", memory_stats=lambda: {"bytes_limit": limit})
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    if not refused:
        check_memory({"parameters and optimizer": 2**30})
        return
    with pytest.raises(ConfigError, match=r"1\.00 GiB on a device .* and a device has 1\.00 GiB: take a smaller model"):
        check_memory({"parameters and optimizer": 2**30})
