"""An A/A sweep: one arm under two names, with different seeds, must be undecided."""

import json

import pytest

from tests.support.small_runs import small
from zoo.lab.report.build import build_report
from zoo.lab.results.sweep_results import load_sweep
from zoo.training.trainer import run

SEEDS = (0, 1, 2, 3)


@pytest.mark.promise(reason="whole runs are trained")
def test_one_arm_under_two_names_is_undecided(tmp_path):
    names = {"norm=first": 0, "norm=second": 100}
    runs = []
    for arm, offset in names.items():
        for seed in SEEDS:
            folder = f"{arm}-seed{seed}"
            run(
                small(seed=offset + seed, training__steps=30, training__eval_every=0, training__checkpoint_every=0),
                tmp_path / folder,
                lambda line: None,
            )
            runs.append({"folder": folder, "arm": arm, "seed": seed, "identity": folder})
    sides = [{"arm": arm, "metric": "eval/loss"} for arm in names]
    (tmp_path / "experiment.json").write_text(
        json.dumps(
            {
                "name": "same",
                "question": "Is it better than itself?",
                "size": "",
                "claim": None,
                "metric": "eval/loss",
                "factors": {"norm": ["first", "second"]},
                "seeds": list(SEEDS),
                "warnings": [],
                "runs": runs,
                "arms": [
                    {"name": arm, "factors": {"norm": arm[5:]}, "overrides": {}, "parameters": {}, "flops_per_token": 1}
                    for arm in names
                ],
                "contrasts": [
                    {
                        "name": "better",
                        "a": sides[0],
                        "b": sides[1],
                        "rule": "superiority",
                        "margin": 0,
                        "expected": "",
                    },
                    {"name": "worse", "a": sides[1], "b": sides[0], "rule": "superiority", "margin": 0, "expected": ""},
                ],
            }
        )
    )
    verdict = build_report(load_sweep(tmp_path), tmp_path / "report.html").verdict
    assert verdict.overall == "undecided"
    assert {outcome.outcome for outcome in verdict.outcomes} == {"undecided"}
    # The runs do differ, by their seeds.
    assert all(outcome.difference.sd > 1e-4 for outcome in verdict.outcomes)
