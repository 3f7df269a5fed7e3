"""Names of the folders of runs: portable, short, and different."""

import re
import shlex
from pathlib import Path

import pytest

from zoo import config
from zoo.lab.experiment import levels
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")


@pytest.fixture(autouse=True)
def fake_cost(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)


@pytest.mark.parametrize(
    ("label", "folder"),
    [
        ("../../etc", "x=..-..-etc-seed0"),
        ("a b/c", "x=a-b-c-seed0"),
        ("<script>", "x=-script--seed0"),
        ("ü", "x=--seed0"),
    ],
)
def test_folder_names_are_portable(label, folder):
    run = make_plan(fake.unrestricted({"x": {label: {"model.dim": 64}}}, seeds=(0,))).runs[0]
    assert run.folder == folder


def test_a_folder_name_can_stand_in_any_argument(tmp_path):
    factors = {"norm": levels("model.norm.kind", "rmsnorm", "layernorm"), "dim": levels("model.dim", 32, 64)}
    plan = make_plan(fake.unrestricted(factors, seeds=(0,)))
    assert [run.folder for run in plan.runs] == [
        f"norm={norm}+dim={dim}-seed0" for norm in ("rmsnorm", "layernorm") for dim in (32, 64)
    ]
    assert all(shlex.quote(run.folder) == run.folder for run in plan.runs)


def test_a_sweep_with_commas_in_its_folder_names_keeps_them(tmp_path):
    factors = {"norm": levels("model.norm.kind", "rmsnorm", "layernorm"), "dim": levels("model.dim", 32, 64)}
    plan = make_plan(fake.unrestricted(factors, seeds=(0,)))
    new, old = "norm=layernorm+dim=32-seed0", "norm=layernorm,dim=32-seed0"
    (tmp_path / "norm=rmsnorm,dim=64-seed0").mkdir()
    (tmp_path / old).mkdir()
    (tmp_path / new).mkdir()
    found = [run.folder for run in plan.in_folder(tmp_path).runs]
    assert found == ["norm=rmsnorm+dim=32-seed0", "norm=rmsnorm,dim=64-seed0", new, "norm=layernorm+dim=64-seed0"]


def test_folder_name_without_a_leading_dot():
    run, *_ = make_plan(fake.unrestricted({".x": {"a": {"model.dim": 64}}})).runs
    assert run.folder == "_x=a-seed0"


def test_folders_that_would_coincide_get_a_hash():
    labels = {"a b": {"model.dim": 64}, "a/b": {"model.dim": 32}, "A-B": {"model.dim": 16}, "c": {}}
    runs = make_plan(fake.unrestricted({"x": labels}, seeds=(0,))).runs
    folders = [run.folder for run in runs]
    assert len({folder.lower() for folder in folders}) == 4
    assert all(re.fullmatch("x=[aA]-[bB]-seed0-[0-9a-f]{8}", folder) for folder in folders[:3])
    assert folders[3] == "x=c-seed0"


def test_long_names_are_cut():
    runs = make_plan(
        fake.unrestricted({"x": {"y" * 300 + "1": {"model.dim": 64}, "y" * 300 + "2": {"model.dim": 32}}})
    ).runs
    assert len({run.folder for run in runs}) == 4
    assert all(len(run.folder) <= 180 and run.folder.endswith(f"-seed{run.seed}") for run in runs)
