"""`zoo run`: arms from the command line, and the tables that end a sweep."""

import json
import re

import numpy as np

from zoo.lab.formatting import difference_columns, number, plus_minus_column
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
    values = [final_values(sweep, arm.name, sweep.metric) for arm in sweep.arms]
    reached = plus_minus_column([(np.mean(list(one.values())), np.std(list(one.values()), ddof=1)) for one in values])
    found = [paired_difference(one, values[0]) for one in values[1:]]
    columns = difference_columns([(one.mean, one.low, one.high) for one in found])
    expected = [["baseline"], *([*texts, "3", "yes"] for texts in zip(*columns, strict=True))]
    for arm, text, compared in zip(sweep.arms, reached, expected, strict=True):
        row, *_ = [line for line in lines if line[0] == arm.label]
        assert row[1:] == ["3", text, *compared]
    floors = sweep.floor_scores(sweep.arms[0].name, sweep.metric)
    assert {line[0]: line[1] for line in lines if line[0].startswith("floor: ")} == {
        f"floor: {name}": number(score) for name, score in floors.items()
    }
    assert "unigram" in floors
    (main,) = [line for line in lines if line[:2] == ["placement", "post against pre"]]
    effects = [effect.difference for effect in estimate_effects(sweep) if len(effect.what) == 1]
    means, _ = difference_columns([(effect.mean, effect.low, effect.high) for effect in effects])
    assert main[2] == means[1]
