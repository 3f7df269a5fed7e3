"""Warm-up of sequence length and batch size: the same text in shorter or fewer rows, exact resumption,
and stages that are refused.
"""

import numpy as np
import pytest

from tests.support.small_runs import curves, lines, small, stop_requested_at
from zoo import config as configs
from zoo import data
from zoo.data.pipeline.batch_stages import cut, sum_before, value_at
from zoo.errors import ConfigError, Preempted
from zoo.lab.planning.arm import PlannedArm
from zoo.training.trainer import run

STAGES = {"data__length_stages": (4, 2, 8, 3)}


def test_each_update_has_the_value_of_its_stage():
    assert [sum_before((4, 2, 8, 3), step, 16) for step in range(7)] == [0, 4, 8, 16, 24, 32, 48]
    assert [value_at((4, 2, 8, 3), step, 16) for step in range(7)] == [4, 4, 8, 8, 8, 16, 16]


def test_a_row_is_cut_into_rows_that_share_one_token():
    pieces = cut({"tokens": np.arange(18).reshape(2, 9)}, 4)["tokens"]
    np.testing.assert_array_equal(pieces, [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8], [9, 10, 11, 12, 13], [13, 14, 15, 16, 17]])


def test_length_stages_keep_the_text_of_each_batch():
    resolved = [configs.resolve(configs.override(small(**more), {"model.vocab_size": 300})) for more in ({}, STAGES)]
    whole, staged = (data.load(config).training_batches() for config in resolved)
    assert next(iter(data.load(resolved[1]).evaluation_batches()))["tokens"].shape[1] == 17
    for step in range(7):
        before, after = whole.batch(step)["tokens"], staged.batch(step)["tokens"]
        length = value_at(STAGES["data__length_stages"], step, 16)
        assert after.shape == (8 * 16 // length, length + 1)
        np.testing.assert_array_equal(after[:, 1:].ravel(), before[:, 1:].ravel())
        np.testing.assert_array_equal(after[:: 16 // length, 0], before[:, 0])


def test_batch_stages_keep_the_order_of_rows():
    resolved = [
        configs.resolve(configs.override(small(**more), {"model.vocab_size": 300}))
        for more in ({}, {"data__batch_stages": (2, 2, 4, 3)})
    ]
    whole, staged = (data.load(config).training_batches() for config in resolved)
    rows = np.concatenate([whole.batch(step)["tokens"] for step in range(4)])
    batches = [staged.batch(step)["tokens"] for step in range(7)]
    assert [len(batch) for batch in batches] == [2, 2, 4, 4, 4, 8, 8]
    np.testing.assert_array_equal(np.concatenate(batches), rows)


@pytest.mark.promise(reason="runs are trained")
@pytest.mark.parametrize(
    ("stages", "token_fraction"), [({"data__length_stages": (8, 5)}, 1), ({"data__batch_stages": (4, 5)}, 0.5)]
)
def test_a_run_counts_its_tokens_and_resumes_bit_for_bit_between_stages(tmp_path, monkeypatch, stages, token_fraction):
    config = small(**stages)
    run(config, tmp_path / "straight", lambda line: None)
    for line in lines(tmp_path / "straight"):
        assert line["tokens"] == 8 * 16 * (min(line["step"], 5) * token_fraction + max(line["step"] - 5, 0))
    with stop_requested_at(4, monkeypatch), pytest.raises(Preempted):
        run(config, tmp_path / "parts", lambda line: None)
    run(config, tmp_path / "parts", lambda line: None)
    assert curves(tmp_path / "parts") == curves(tmp_path / "straight")


def test_a_plan_counts_the_tokens_of_an_arm(tmp_path):
    def tokens(**more):
        return PlannedArm("arm", {}, {}, configs.resolve(small(**more)), {}, 1.0).tokens

    assert tokens(data__batch_stages=(4, 8), training__steps=16) == tokens() == 12 * 8 * 16
    assert tokens(data__length_stages=(4, 8)) == tokens()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"data__length_stages": (8,)}, "data.length_stages=8 must be pairs"),
        ({"data__length_stages": (6, 2)}, "use lengths that divide it"),
        ({"data__length_stages": (8, 2, 4, 2)}, "must grow"),
        ({"data__length_stages": (16, 2)}, "must grow, up to less than data.sequence_length=16"),
        ({"data__length_stages": (8, 12)}, "takes 12 updates and leaves none of training.steps=12"),
        ({"data__batch_stages": (4, 2, 4, 2)}, "must grow, up to less than data.batch_size=8"),
        ({"data__batch_stages": (3, 2), "training__accumulation_steps": 2}, "must be divisible by 2, training.accum"),
        ({"data__batch_stages": (4, 2), "training__microbatch_size": 4}, "cannot be combined with training.microbatch"),
        (STAGES | {"objective__kind": "multi_token", "objective__future_tokens": 5}, "lie beyond rows of 4 tokens"),
        (STAGES | {"model__architecture": "encoder", "objective__kind": "masked"}, "has no effect"),
    ],
)
def test_bad_stages_are_refused(changes, line):
    with pytest.raises(ConfigError, match=line):
        configs.resolve(small(**changes))
