"""Runs whose kernel an earlier version chose by another rule are not mixed with others."""

from pathlib import Path

import pytest

from zoo import config
from zoo.files import write_json
from zoo.lab.launch.kernel_versions import mixed_kernels
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan
from zoo.lab.results.schema import mix_kernels

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")
EARLIER = {"attention_kernels": [{"kernel": "banded rows"}]}
LONG = {"attention_kernels": [{"kernel": "rows"}], "short_rows_by_einsum": False}
SHORT = {"attention_kernels": [{"kernel": "einsum"}], "short_rows_by_einsum": True}


@pytest.mark.parametrize(("meta", "length", "mixed"), [
    (EARLIER, 32, True), (EARLIER, 512, False), (SHORT, 32, False), (LONG, 32, False),
    ({"attention_kernels": [{"kernel": "einsum"}]}, 32, False), ({"attention_kernels": "rows"}, 32, False),
])  # fmt: skip
def test_an_unfinished_sweep_of_an_earlier_version_is_not_continued_by_another_kernel(
    tmp_path, monkeypatch, meta, length, mixed
):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    experiment = fake.experiment(contrasts=())
    base = config.override(experiment.base, {"data.sequence_length": length})
    runs = make_plan(fake.experiment(contrasts=(), base=base)).in_order
    (tmp_path / runs[0].folder).mkdir()
    write_json(tmp_path / runs[0].folder / "meta.json", meta)
    # A run without a checkpoint starts from the beginning.
    assert mixed_kernels(tmp_path, runs) == []
    (tmp_path / runs[0].folder / "checkpoints" / "3").mkdir(parents=True)
    lines = mixed_kernels(tmp_path, runs)
    assert bool(lines) == mixed
    if mixed:
        assert lines[0].startswith(f"{runs[0].folder} in {tmp_path} computed attention by rows, as an earlier version")
    # Without new runs, nothing is mixed.
    assert mixed_kernels(tmp_path, runs[:1]) == []


def test_only_kernels_that_the_rule_changes_keep_runs_from_being_compared():
    assert mix_kernels([EARLIER, SHORT])
    assert not mix_kernels([EARLIER, LONG, EARLIER, {}])
    assert not mix_kernels([LONG, SHORT, {}, {"attention_kernels": [{"kernel": "einsum"}]}])
