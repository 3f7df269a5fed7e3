"""`zoo run`: arms from the command line, and the tables that end a sweep."""

import json
import re

import numpy as np

from zoo.lab.formatting import interval, number, plus_minus, rounded_mean
from zoo.lab.results.curves import final_values
from zoo.lab.results.factor_effects import estimate_effects
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.statistics.paired import paired_difference


def test_arms_from_the_command_line(zoo, folder):
    flags = ("--config=small.py", "--arm", "plain=", "--arm", "norm=model.norm.kind=rmsnorm", "--seeds", "2")
    code, out, err = zoo(*flags, "--allow", "parameters,flops")
    assert (code, err) == (0, "")
    assert "How do plain and norm differ?" in out
    record = json.loads((folder / "runs/small-plain-norm/experiment.json").read_text())
    assert record["command"][:6] == ["zoo", "run", "--config=small.py", "--arm", "plain=", "--arm"]
    config = json.loads((folder / "runs/small-plain-norm/arm=norm-seed1/config.json").read_text())
    assert config["model"]["norm"]["kind"] == "rmsnorm"


def test_the_table_of_results_comes_before_the_verdict(zoo, folder):
    _, out, _ = zoo("--config=small.py", "--vary", "model.norm.kind=layernorm,rmsnorm",
                    "--vary", "model.norm.placement=pre,post", "--allow", "parameters,flops")  # fmt: skip
    sweep = load_sweep(folder / "runs/small-norm.kind-placement")
    lines = [re.split(r"  +", line.strip()) for line in out.splitlines()]
    for arm in sweep.arms:
        values = final_values(sweep, arm.name, sweep.metric)
        row, *_ = [line for line in lines if line[0] == arm.label]
        assert row[1:3] == ["3", plus_minus(np.mean(list(values.values())), np.std(list(values.values()), ddof=1))]
        if arm is not sweep.arms[0]:
            found = paired_difference(values, final_values(sweep, sweep.arms[0].name, sweep.metric))
            assert row[3:] == [rounded_mean(found.mean, found.low, found.high), interval(found.low, found.high)]
    floors = sweep.floor_scores(sweep.arms[0].name, sweep.metric)
    assert {line[0]: line[1] for line in lines if line[0].startswith("floor: ")} == {
        f"floor: {name}": number(score) for name, score in floors.items()
    }
    assert "unigram" in floors
    (main,) = [line for line in lines if line[:2] == ["placement", "post against pre"]]
    effect = next(effect for effect in estimate_effects(sweep) if effect.what == ("placement",)).difference
    assert main[2] == rounded_mean(effect.mean, effect.low, effect.high)
