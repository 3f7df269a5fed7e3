"""The peak of the memory that devices have used, and where it is written."""

from types import SimpleNamespace

import jax
import pytest

from zoo.files import read_json
from zoo.training.records.status_file import StatusFile
from zoo.training.runtime.device_memory import peak_memory


@pytest.mark.parametrize(("stats", "peak"), [
    ([None, None], None), ([{}], None), ([{"peak_bytes_in_use": 3}, {"peak_bytes_in_use": 5}, None], 5)
])  # fmt: skip
def test_it_is_that_of_the_fullest_device(monkeypatch, stats, peak):
    devices = [SimpleNamespace(memory_stats=lambda of_one=of_one: of_one) for of_one in stats]
    monkeypatch.setattr(jax, "local_devices", lambda: devices)
    assert peak_memory() == peak


@pytest.mark.parametrize(("peak", "said"), [(None, ""), (3 * 2**29, ", 1.50 GiB of a device's memory at most")])
def test_a_run_that_is_done_says_it(tmp_path, peak, said):
    lines = []
    StatusFile(tmp_path, tmp_path, 7, lines.append).write_done(7, "0" * 64, 2.0, peak)
    assert lines == [f"done: 7 steps in 2.0 s of training{said}"]
    assert read_json(tmp_path / "status.json").get("peak_memory") == peak
