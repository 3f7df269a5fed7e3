"""`zoo doctor`."""

import json

import pytest

from zoo.cli import doctor
from zoo.cli.main import main


@pytest.mark.promise(reason="the speed of the device is measured")
def test_doctor_reports_versions_devices_and_speed(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "SECONDS", 0.05)
    monkeypatch.setattr(doctor, "PRODUCT", (64, 64, 64))
    monkeypatch.setenv("ZOO_KEEP_FREED_MEMORY", "0")
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["versions"]["jax"]
    assert report["devices"]["platform"] == "cpu"
    assert report["keeps_freed_memory"] is False
    speed = report["speed"]
    assert speed["product_gflops"] > 0
    # 8 rows of 128 tokens in a step.
    assert abs(speed["tokens_per_second"] * speed["step_milliseconds"] / 1e3 - 1024) < 1
    assert main(["doctor", "--no-speed"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["versions", "processor", "devices", "memory", "programs"]


def test_every_measurement_has_a_line(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_product_speed", lambda: 100.0)
    step = {"step_milliseconds": 10.0, "tokens_per_second": 5000.0, "step_gflops": 40.0, "page_faults": 3.0}
    monkeypatch.setattr(doctor, "_step_speed", lambda: step)
    monkeypatch.setenv("ZOO_KEEP_FREED_MEMORY", "0")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "product     100 GFLOP/s" in out
    assert "10.0 ms, 5,000 tokens/s, 40 GFLOP/s (40% of the product's), 3 page faults" in out
