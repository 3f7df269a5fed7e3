"""Runs that are trained together: each gives the result that it would give alone, even if others
diverge or fail.

With full compiler optimisations this holds bit for bit. The default tests compile with few
optimisations (tests/conftest.py), and a step inside `map` may then round differently: tests that
compare bits guard a promise, and the others allow rounding errors.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.support.small_runs import OBJECTIVES, curves, lines, small, stop_requested_at
from tests.support.untrained import untrained
from zoo import config as configs
from zoo.cli.sweeps import population
from zoo.config.kinds import OPTIMIZER_KINDS
from zoo.data import load
from zoo.errors import ConfigError, Diverged, Preempted
from zoo.files import read_json, write_json
from zoo.models.architectures import make_model
from zoo.nested import flatten
from zoo.objectives import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.records.resume_checks import check_same_executor
from zoo.training.records.run_folder import RunFolder
from zoo.training.startup import RunRequest
from zoo.training.step import make_program
from zoo.training.trainer import run, train_runs

ROOT = Path(__file__).parents[2]
DROPPING = {
    "training__checkpoint_every": 0,
    "model__dropout": 0.1,
    "model__attention__dropout": 0.1,
    "optimizer__weight_decay": 0.1,
    "optimizer__clip_norm": 1.0,
    "optimizer__momentum_warmup": 4,
    "optimizer__momentum_cooldown": 3,
    "objective__label_smoothing": 0.1,
    "schedule__kind": "cosine",
    "optimizer__groups": ("tables",),
    "optimizer__group__tables__select": "role:embedding",
    "optimizer__group__tables__rate_factor": 0.25,
    "optimizer__group__tables__weight_decay": 0.3,
    "optimizer__ema_steps": 4,
    "optimizer__tail_average": 0.4,
}
# Members that differ in every kind of traced number, in a group of parameters too; the last one
# diverges in its second step.
MEMBERS = [
    DROPPING,
    DROPPING | {"seed": 1, "model__dropout": 0.3, "optimizer__learning_rate": 1e-3, "schedule__warmup_steps": 5,
                "schedule__final_fraction": 0.2, "optimizer__weight_decay": 0.3, "optimizer__beta1": 0.8, "optimizer__beta2": 0.95,
                "objective__label_smoothing": 0.2, "optimizer__epsilon": 1e-6, "optimizer__clip_norm": 0.3,
                "optimizer__momentum_warmup": 6, "optimizer__momentum_cooldown": 2, "optimizer__momentum_start": 0.5,
                "optimizer__group__tables__rate_factor": 2.0, "optimizer__group__tables__weight_decay": 0.01,
                "optimizer__ema_steps": 8},
    DROPPING | {"optimizer__learning_rate": 1e30, "optimizer__clip_norm": 1e30},
]  # fmt: skip


def quiet(line):
    del line


def together(members, top, executor="map"):
    """Trains the members, each in its own folder, and returns their outcomes."""
    return train_runs(
        [RunRequest(small(**one), top / str(index), quiet) for index, one in enumerate(members)], executor
    )


def sha256(folder):
    return read_json(folder / "status.json")["parameters_sha256"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The members, each trained alone."""
    top = tmp_path_factory.mktemp("alone")
    for index, one in enumerate(MEMBERS[:2]):
        run(small(**one), top / str(index), quiet)
    with pytest.raises(Diverged):
        run(small(**MEMBERS[2]), top / "2", quiet)
    return top


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """The members, trained as one population by `map`."""
    top = tmp_path_factory.mktemp("mapped")
    outcomes = together(MEMBERS, top)
    return top, outcomes


@pytest.mark.promise(reason="programs of a population and of runs alone are compiled")
def test_map_gives_each_member_the_bits_of_its_run_alone(alone, mapped):
    top, outcomes = mapped
    for index in (0, 1):
        assert curves(top / str(index)) == curves(alone / str(index))
        assert (
            read_json(top / str(index) / "status.json")
            == read_json(alone / str(index) / "status.json")
            == outcomes[index]
        )
    assert sha256(top / "0") != sha256(top / "1")


def losses(folder):
    return np.array([line["train/loss"] for line in lines(folder) if line.get("train/loss") is not None])


@pytest.mark.promise(reason="programs of a population and of runs alone are compiled")
def test_map_gives_members_their_own_values_and_data(alone, mapped):
    for index in (0, 1):
        np.testing.assert_allclose(losses(mapped[0] / str(index)), losses(alone / str(index)), rtol=1e-4)
    assert not np.allclose(losses(alone / "0"), losses(alone / "1"), rtol=1e-2)


@pytest.mark.promise(reason="programs of a population and of runs alone are compiled")
def test_diverged_member_ends_and_the_others_continue(alone, mapped):
    top, outcomes = mapped
    assert isinstance(outcomes[2], Diverged)
    status = read_json(top / "2" / "status.json")
    assert status == read_json(alone / "2" / "status.json")
    assert [line["step"] for line in lines(top / "2") if "train/loss" in line] == [1, 2]
    assert (status["state"], status["step"]) == ("diverged", 2)
    assert [line["step"] for line in lines(top / "0") if "train/loss" in line] == list(range(1, 13))


@pytest.mark.promise(reason="programs of a population and of runs alone are compiled")
def test_executor_is_recorded(alone, mapped):
    assert read_json(mapped[0] / "0" / "meta.json")["executor"] == "map"
    assert read_json(alone / "0" / "meta.json")["executor"] == "single"


@pytest.mark.promise(reason="programs of a population and of runs alone are compiled")
def test_vmap_on_two_devices_agrees_up_to_rounding(alone, tmp_path):
    """Each device trains two members."""
    program = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import jax
jax.config.update("jax_num_cpu_devices", 2)
from tests.training.test_population import MEMBERS, together
from zoo.training import executor
seen = []
original = executor.PopulationExecutor._sharding
executor.PopulationExecutor._sharding = lambda self, *axes: seen.append(dict(self._mesh.shape)) or original(self, *axes)
outcomes = together([*MEMBERS[:2], *MEMBERS[:2]], Path(sys.argv[1]), "vmap")
assert seen[0] == {"population": 2, "data": 1, "fsdp": 1, "expert": 1, "tensor": 1}, seen[0]
assert all(outcome["state"] == "done" for outcome in outcomes), outcomes
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path), str(ROOT)], check=True, cwd=ROOT)
    for index in range(4):
        found, expected = losses(tmp_path / str(index)), losses(alone / str(index % 2))
        assert found.shape == (12,)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        assert read_json(tmp_path / str(index) / "meta.json")["executor"] == "vmap"


@pytest.mark.promise(reason="programs of a population and of runs alone are compiled")
def test_member_resumes_alone_or_in_another_population(alone, tmp_path, monkeypatch):
    """After a common stop, one member resumes alone, the other in a population with a run at
    another step.
    """
    with stop_requested_at(5, monkeypatch):
        outcomes = together(MEMBERS[:2], tmp_path)
    assert all(isinstance(outcome, Preempted) for outcome in outcomes)
    steps = [read_json(tmp_path / str(index) / "status.json")["step"] for index in (0, 1)]
    assert steps[0] == steps[1]
    assert steps[0] in (5, 6)
    run(small(**MEMBERS[0]), tmp_path / "0", quiet)
    company = [
        RunRequest(small(**MEMBERS[0]), tmp_path / "new", quiet),
        RunRequest(small(**MEMBERS[1]), tmp_path / "1", quiet),
    ]
    assert [outcome["state"] for outcome in train_runs(company, "map")] == ["done", "done"]
    for folder, index in (("new", 0), ("1", 1), ("0", 0)):
        assert sha256(tmp_path / folder) == sha256(alone / str(index))
        assert curves(tmp_path / folder) == curves(alone / str(index))


@pytest.mark.promise(reason="programs of a population and of runs alone are compiled")
@pytest.mark.parametrize(("objective", "own", "changes"), [
    ("replaced_tokens", {"training__dynamics_every": 4, "model__dropout": 0.1},
     {"seed": 3, "objective__discriminator_weight": 10.0, "objective__mask_token_fraction": 0.5}),
    ("translation", {"training__steps": 4, "training__eval_every": 0, "model__dropout": 0.1},
     {"optimizer__learning_rate": 1e-3, "model__dropout": 0.2}),
])  # fmt: skip
def test_members_with_different_batches_equal_their_runs_alone(tmp_path, objective, own, changes):
    common = OBJECTIVES[objective] | {"training__checkpoint_every": 0} | own
    if objective == "translation":
        # Pairs of both widths of batches.
        for name, lengths in (("train", range(4, 24)), ("val", range(4, 8))):
            pairs = ({"source": "a" * length, "target": "b" * (length // 2)} for length in lengths)
            (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, pairs)))
        common |= {"data__source": f"jsonl:{tmp_path}/train.jsonl", "data__held_out": f"jsonl:{tmp_path}/val.jsonl"}
    members = [common, common | changes]
    keys = {configs.program_key(flatten(configs.resolve(small(**one)))) for one in members}
    assert len(keys) == 1
    together(members, tmp_path)
    for index, one in enumerate(members):
        run(small(**one), tmp_path / f"alone{index}", quiet)
        assert curves(tmp_path / str(index)) == curves(tmp_path / f"alone{index}")
        assert sha256(tmp_path / str(index)) == sha256(tmp_path / f"alone{index}")
        if objective == "replaced_tokens":
            found, expected = (
                (tmp_path / name / "dynamics.jsonl").read_text() for name in (str(index), f"alone{index}")
            )
            assert found == expected
            assert found.count("\n") >= 4
    assert sha256(tmp_path / "0") != sha256(tmp_path / "1")


@pytest.mark.promise(reason="programs of a population and of runs alone are compiled")
@pytest.mark.faults
def test_killed_population_resumes_bit_for_bit(alone, tmp_path):
    for index, one in enumerate(MEMBERS[:2]):
        (tmp_path / str(index)).mkdir()
        write_json(
            tmp_path / str(index) / "config.json", configs.to_plain(small(**one | {"training__checkpoint_every": 3}))
        )
    words = ["--executor=map", str(tmp_path / "0"), str(tmp_path / "1")]
    command = [sys.executable, "-m", "zoo.cli.sweeps.population", *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not any((tmp_path / "1" / "checkpoints").glob("[0-9]*")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert population.main(words) == 0
    for index in (0, 1):
        assert sha256(tmp_path / str(index)) == sha256(alone / str(index))
        assert curves(tmp_path / str(index)) == curves(alone / str(index))
        assert "done: 12 steps" in (tmp_path / str(index) / "log.txt").read_text()


def test_finished_member_is_kept_and_unstartable_one_does_not_stop_others(tmp_path):
    assert [outcome["state"] for outcome in together([{}], tmp_path)] == ["done"]
    shutil.copytree(tmp_path / "0", tmp_path / "1")
    before = (tmp_path / "0" / "metrics.jsonl").read_bytes()
    outcomes = together([{}, {"seed": 5}, {"seed": 1}], tmp_path)
    assert [outcomes[index]["state"] for index in (0, 2)] == ["done", "done"]
    assert isinstance(outcomes[1], ConfigError)
    assert "seed=0" in str(outcomes[1])
    for name in ("0", "1"):
        assert (tmp_path / name / "metrics.jsonl").read_bytes() == before
        assert read_json(tmp_path / name / "status.json")["state"] == "done"
    assert losses(tmp_path / "2").shape == losses(tmp_path / "0").shape
    assert not np.allclose(losses(tmp_path / "2"), losses(tmp_path / "0"), rtol=1e-3)


def test_former_executor_name_of_single_runs_is_accepted(tmp_path):
    (tmp_path / "checkpoints" / "3").mkdir(parents=True)
    write_json(tmp_path / "meta.json", {"executor": "alone"})
    check_same_executor(RunFolder(tmp_path), "single")
    with pytest.raises(
        ConfigError, match="was trained separately so far and cannot be continued in a population, by vmap"
    ):
        check_same_executor(RunFolder(tmp_path), "vmap")


@pytest.mark.promise(reason="programs of a population and of runs alone are compiled")
def test_run_is_not_resumed_by_an_executor_with_other_results(tmp_path, monkeypatch):
    with stop_requested_at(4, monkeypatch):
        together([{}], tmp_path, "vmap")
    before = read_json(tmp_path / "0" / "status.json")
    assert before["state"] == "preempted"
    with pytest.raises(ConfigError, match=r"by vmap so far and cannot be continued separately"):
        run(small(), tmp_path / "0", quiet)
    assert read_json(tmp_path / "0" / "status.json") == before
    assert together([{}], tmp_path, "vmap")[0]["state"] == "done"


# A parameter group for each further optimizer that has numeric fields.
OTHER_KINDS = {
    "sgd": {"select": "path:*/query/*", "sgd_momentum": 0.5},
    "lion": {"select": "path:*/key/*", "lion_beta1": 0.5, "lion_beta2": 0.5},
    "adafactor": {"select": "path:*/value/*", "adafactor_decay": 0.5, "adafactor_clip": 0.5},
    "ademamix": {"select": "path:*/up/*", "ademamix_beta3": 0.5, "ademamix_alpha": 0.5},
    "normuon": {"select": "path:*/output/*", "normuon_beta2": 0.5},
    "soap": {"select": "path:*/down/*", "soap_beta": 0.5},
}
NUMBERS = {
    "model.ffn.experts.balance_weight": 0.1,
    "model.ffn.experts.sequence_balance_weight": 0.2,
    "model.ffn.experts.z_weight": 0.3,
    **{f"optimizer.group.{kind}.{name}": 0.7 for kind, own in OTHER_KINDS.items() for name in own if name != "select"},
    "optimizer.muon_momentum": 0.8,
    "optimizer.momentum_warmup": 7,
    "optimizer.momentum_cooldown": 5,
    "optimizer.momentum_start": 0.4,
    "optimizer.learning_rate": 2e-3,
    "optimizer.weight_decay": 0.3,
    "optimizer.beta1": 0.5,
    "optimizer.beta2": 0.9,
    "optimizer.epsilon": 1e-3,
    "optimizer.clip_norm": 0.1,
    "optimizer.ema_steps": 7,
    "optimizer.group.a.rate_factor": 0.3,
    "optimizer.group.a.beta1": 0.3,
    "optimizer.group.a.beta2": 0.7,
    "optimizer.group.a.epsilon": 1e-2,
    "optimizer.group.a.weight_decay": 0.2,
    "schedule.warmup_steps": 4,
    "schedule.power": 3.0,
    "schedule.final_fraction": 0.5,
    "model.dropout": 0.4,
    "model.attention.dropout": 0.4,
    "model.layers.kinds.other.attention.dropout": 0.2,
    "objective.label_smoothing": 0.4,
    "objective.z_loss": 1e-1,
}
WITH_ALL = {name: value for name, value in DROPPING.items() if "group" not in name} | {
    "optimizer__kind": "muon",
    "optimizer__momentum_warmup": 3,
    "optimizer__momentum_cooldown": 2,
    "optimizer__momentum_start": 0.6,
    "schedule__kind": "polynomial",
    "optimizer__ema_steps": 5,
    "optimizer__group__a__kind": "adamw",
    "objective__z_loss": 1e-3,
    "optimizer__groups": ("a", *OTHER_KINDS),
    "optimizer__group__a__select": "role:embedding",
    "optimizer__group__a__rate_factor": 0.5,
    **{
        f"optimizer__group__{kind}__{name}": value
        for kind, own in OTHER_KINDS.items()
        for name, value in {"kind": kind, **own}.items()
    },
    "model__ffn__kind": "moe",
    "model__ffn__experts__balance_weight": 0.01,
    "model__ffn__experts__sequence_balance_weight": 0.02,
    "model__ffn__experts__z_weight": 0.03,
    "optimizer__group__a__beta1": 0.5,
    "optimizer__group__a__beta2": 0.8,
    "optimizer__group__a__epsilon": 1e-4,
    "optimizer__group__a__weight_decay": 0.4,
    "model__num_layers": 2,
    "model__layers__pattern": ("other", "plain"),
    "data__sequence_length": 8,
    "model__layers__kinds__other__attention__dropout": 0.1,
    "model__layers__kinds__plain__attention__bias": False,
}


def traced(config):
    """Returns the text of a run's step, and by path whether the step reads the field."""
    config = configs.resolve(config)
    tokenizer = load(config).tokenizer
    program = make_program(
        config, make_model(config), make_objective(config, tokenizer), make_mesh(config, jax.devices()[:1])
    )
    arguments = (program.abstract_state, {"tokens": jax.ShapeDtypeStruct((8, 9), np.int32)}, program.constants(0))
    jaxpr = program.train_step.trace(*arguments).jaxpr.jaxpr
    read = {variable for equation in jaxpr.eqns for variable in equation.invars if not hasattr(variable, "val")}
    names = [
        jax.tree_util.keystr(name, simple=True, separator="/")
        for name, _ in jax.tree_util.tree_leaves_with_path(arguments)
    ]
    values = {
        name.partition("hyperparameters/")[2]: variable in read
        for name, variable in zip(names, jaxpr.invars, strict=True)
    }
    return re.sub(r"0x[0-9a-f]+", "", str(jaxpr)), values


def test_numbers_are_arguments_of_the_program():
    base = small(**WITH_ALL)
    (text, _), (other, read) = traced(base), traced(configs.override(base, NUMBERS))
    # If this fails, reduce NUMBERS to find the field that is compiled into the program.
    assert text == other
    assert all(read[path] for path in NUMBERS)


def test_distillation_numbers_are_arguments_of_the_program(tmp_path):
    teacher = untrained(tmp_path / "teacher", small(data__sequence_length=8))
    base = small(data__sequence_length=8, objective__distillation__teacher=str(teacher))
    numbers = {"objective.distillation.kl": 0.3, "objective.distillation.temperature": 4.0}
    (text, _), (other, read) = traced(base), traced(configs.override(base, numbers))
    assert text == other
    assert all(read[path] for path in numbers)


def test_all_traced_fields_are_covered_here():
    of_other_kinds = {field.path for kind in OTHER_KINDS for field in OPTIMIZER_KINDS.by_name[kind].fields}
    read = {
        path
        for path in flatten(configs.resolve(small(**WITH_ALL)))
        if configs.is_traced(path) and path not in of_other_kinds
    }
    elsewhere = ("objective.distillation", "objective.discriminator_weight")
    assert {path for path in read if not path.startswith(elsewhere)} == set(NUMBERS)


def test_runs_with_different_programs_are_refused():
    resolved = [
        configs.resolve(small(**one)) for one in ({}, {"seed": 3}, {"model__dim": 64, "optimizer__weight_decay": 0.1})
    ]
    configs.check_one_program(resolved[:2], "ab")
    with pytest.raises(
        ConfigError,
        match=r"^c cannot train with a as one program: they differ in .*model.dim, .*optimizer.weight_decay",
    ):
        configs.check_one_program(resolved, "abc")


@pytest.mark.parametrize(("changes", "same"), [
    ({"objective.mask_token_fraction": 0.5}, True), ({"objective.random_token_fraction": 0.0}, True), ({"data.training_fraction": 0.5}, True),
    ({"objective.select_fraction": 0.14}, True), ({"objective.select_fraction": 0.3}, False), ({"training.eval_every": 3}, False),
    ({"training.steps": 13}, False), ({"optimizer.weight_decay": 0.1}, False), ({"optimizer.clip_norm": 1.0}, False),
])  # fmt: skip
def test_runs_share_a_program_only_with_equal_keys(changes, same):
    base = small(model__architecture="encoder", objective__kind="masked", training__eval_masks="as_trained")
    keys = [configs.program_key(flatten(configs.resolve(configs.override(base, one)))) for one in ({}, changes)]
    assert (keys[0] == keys[1]) == same


def test_seeds_with_batches_of_several_widths_do_not_share_a_program():
    base = small(
        data__source="stdlib", model__architecture="encoder", objective__kind="classification", training__eval_batches=0
    )
    one, rate, seed = (
        configs.program_key(flatten(configs.resolve(configs.override(base, changes))))
        for changes in ({}, {"optimizer.learning_rate": 0.1}, {"seed": 1})
    )
    assert one == rate
    assert one != seed


def test_batches_of_different_shapes_are_refused(tmp_path):
    """The config check prevents this; only code that bypasses it gets here."""
    outcomes = together([{}, {"data__sequence_length": 8}], tmp_path)
    assert all(isinstance(outcome, Exception) for outcome in outcomes)
    assert "batches of different shapes" in str(outcomes[0])
    assert os.listdir(tmp_path / "0" / "checkpoints") == []
