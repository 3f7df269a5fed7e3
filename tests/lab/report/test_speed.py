"""The speed of runs in the tables of a report."""

import pytest

from zoo.lab.report.run_tables import speed_columns
from zoo.lab.results.run_records import RunRecord


def record(tmp_path, kind, dtype, **meta):
    device = {"kind": kind, "count": 2}
    return RunRecord(tmp_path, "a", 0, {"model": {"dtype": dtype}}, {"flops_per_token": 1e9, "device": device} | meta)


def texts(speed, run):
    (cells,) = speed_columns([(speed, run)])
    return [cell.text for cell in cells]


@pytest.mark.parametrize(("kind", "dtype", "meta", "cells"), [
    ("NVIDIA H200", "bfloat16", {}, ["593,000", "593,000", "30.0"]),
    ("NVIDIA H200", "float32", {}, ["593,000", "593,000", "–"]),
    ("cpu", "bfloat16", {}, ["590,000", "590,000", "–"]),
    ("NVIDIA H200", "bfloat16", {"flops_per_token": 1234.5}, ["593,000", "0.733", "0.0"]),
    ("NVIDIA H200", "bfloat16", {"flops_per_token": None}, ["593,000", "–", "–"]),
    ("NVIDIA H200", "bfloat16", {"device": None}, ["593,000", "593,000", "–"]),
])  # fmt: skip
def test_the_share_of_peak_is_that_of_the_devices_of_the_run(tmp_path, kind, dtype, meta, cells):
    assert texts(593_400.0, record(tmp_path, kind, dtype, **meta)) == cells


def test_a_run_without_speed_has_no_share(tmp_path):
    assert texts(None, record(tmp_path, "NVIDIA H200", "bfloat16")) == ["–"] * 3
    assert texts(5.0, None) == ["5", "–", "–"]
