"""Kinds of optimizers and schedules that a plug-in adds: which fields they read, alone and in
parameter groups.
"""

import re

import pytest

from tests.support.added_kinds import both_kinds_registered, registered_kinds
from zoo import config as configs
from zoo.config.field import Field
from zoo.config.fields import BY_PATH, group_fields, has_condition
from zoo.config.kinds import OPTIMIZER_KINDS, SCHEDULE_KINDS, Kind
from zoo.config.scopes import overridable
from zoo.errors import ConfigError
from zoo.nested import flatten
from zoo.training.optimization.schedules import constant

GROUP = {"optimizer.groups": ("a",), "optimizer.group.a.select": "role:vector"}
OWN = {"optimizer.group.a.kind": "heavy_ball", "optimizer.group.a.momentum": 0.5}
BUILT_IN = group_fields()
READING = " or ".join(OPTIMIZER_KINDS.having("moments"))


@pytest.fixture(autouse=True)
def heavy_ball_and_halving():
    """Registers both kinds for each test, and checks that nothing of them remains."""
    with both_kinds_registered():
        yield
    assert "heavy_ball" not in BY_PATH["optimizer.kind"].choices
    assert "halving" not in BY_PATH["schedule.kind"].choices
    assert group_fields() == BUILT_IN
    assert not configs.is_traced("optimizer.momentum")


def changed(*changes):
    config = configs.default()
    for change in changes:
        config = configs.override(config, change)
    return config


def resolve(*changes):
    return configs.resolve(changed(*changes))


def refused(*changes):
    with pytest.raises(ConfigError) as caught:
        resolve(*changes)
    return caught.value.problems


def test_added_kinds_are_choices_with_their_own_fields():
    resolved = resolve({"optimizer.kind": "heavy_ball", "optimizer.momentum": "0.8", "schedule.kind": "halving"})
    assert (resolved.optimizer.momentum, resolved.schedule.halvings) == (0.8, 3.0)
    assert configs.resolve(resolved) == resolved
    assert list(SCHEDULE_KINDS.choices) == [
        "constant",
        "cosine",
        "linear",
        "polynomial",
        "inverse_sqrt",
        "wsd",
        "halving",
    ]
    assert resolve({"schedule.kind": "halving", "schedule.final_fraction": 0.5}).schedule.final_fraction == 0.5


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        *(
            (
                {"optimizer.kind": "heavy_ball", f"optimizer.{name}": 0.5},
                f"optimizer.{name}=0.5 has no effect: it is read only when optimizer.kind is {READING}, and "
                f"optimizer.kind is heavy_ball; leave it at {BY_PATH[f'optimizer.{name}'].default!r}",
            )
            for name in ("beta1", "beta2", "epsilon")
        ),
        (
            {"optimizer.momentum": 0.5},
            "optimizer.momentum=0.5 has no effect: it is read only when optimizer.kind is heavy_ball, and optimizer.kind is "
            "adamw; leave it at 0.9",
        ),
        (
            {"schedule.kind": "halving", "schedule.decay_fraction": 0.5},
            "schedule.decay_fraction=0.5 has no effect: it is read only when schedule.kind is wsd, and schedule.kind "
            "is halving; leave it at 0.2",
        ),
        (
            {**GROUP, "optimizer.group.a.momentum": 0.5},
            "optimizer.group.a.momentum=0.5 has no effect: it is read only when optimizer.kind is heavy_ball, and there it "
            "is adamw; leave it out",
        ),
        (
            {**GROUP, **OWN, "optimizer.group.a.beta2": 0.5},
            f"optimizer.group.a.beta2=0.5 has no effect: it is read only when optimizer.kind is {READING}, and there it is "
            "heavy_ball; leave it out",
        ),
    ],
)
def test_fields_that_a_kind_does_not_read_are_refused(changes, line):
    assert refused(changes) == [line]


def test_a_group_may_use_another_optimizer_kind():
    resolved = resolve(GROUP | OWN | {"optimizer.beta1": 0.8})
    assert (resolved.optimizer.kind, resolved.optimizer.group.a.momentum) == ("adamw", 0.5)
    assert configs.resolve(resolved) == resolved
    other = {"optimizer.kind": "heavy_ball", "optimizer.group.a.kind": "adamw", "optimizer.group.a.beta1": 0.5}
    assert resolve(GROUP | other).optimizer.group.a.beta1 == 0.5
    assert overridable("optimizer.group.a") == [
        f"optimizer.{name}" for name in (*BUILT_IN, "momentum", "nesterov", "damping")
    ]


def test_auto_values_are_derived_for_the_kind_of_a_group():
    assert resolve({"optimizer.kind": "heavy_ball", "optimizer.nesterov": True}).optimizer.damping == 0.25
    resolved = resolve(GROUP | OWN)
    assert resolved.optimizer.damping == configs.AUTO
    assert resolved.optimizer.group.a.damping == 0.0
    assert resolve(GROUP | OWN | {"optimizer.group.a.nesterov": True}).optimizer.group.a.damping == 0.25
    # A value that is set, or equal to that of the other parameters, is not derived.
    assert resolve(GROUP | OWN | {"optimizer.group.a.damping": 0.5}).optimizer.group.a.damping == 0.5
    assert "damping" not in resolve({"optimizer.kind": "heavy_ball", **GROUP, **OWN}).optimizer.group.a
    assert resolve({"optimizer.kind": "heavy_ball", "optimizer.damping": 0.5, **GROUP, **OWN}).optimizer.damping == 0.5


def test_changing_the_kind_drops_the_fields_of_the_previous_one():
    before = {"optimizer.beta1": 0.5, "optimizer.epsilon": 1e-3, "schedule.kind": "wsd", "schedule.decay_fraction": 0.5}
    assert resolve(before, {"optimizer.kind": "heavy_ball", "schedule.kind": "halving"}) == resolve(
        {"optimizer.kind": "heavy_ball", "schedule.kind": "halving"}
    )
    after = resolve(GROUP | OWN, {"optimizer.group.a.kind": "adamw"})
    assert set(after.optimizer.group.a) == {"select", "kind"}


def test_problems_of_a_kind_are_reported_once_for_the_run_or_group():
    line = "optimizer.nesterov=true needs optimizer.momentum above 0"
    wrong = {"optimizer.nesterov": True, "optimizer.momentum": 0.0}
    assert refused({"optimizer.kind": "heavy_ball", **wrong}) == [line]
    inside = {f"optimizer.group.a.{path.removeprefix('optimizer.')}": value for path, value in wrong.items()}
    assert refused(GROUP | OWN | inside) == [f"optimizer.group.a: {line}"]
    # Sides of the model do not repeat it, nor do groups of the same kind.
    layers = {"model.architecture": "encoder_decoder", "objective.kind": "prefix", "model.decoder.num_layers": 2}
    factor = GROUP | {"optimizer.group.a.rate_factor": 0.5}
    assert refused({"optimizer.kind": "heavy_ball", **wrong, **layers, **factor}) == [line]
    stairs = {"schedule.kind": "halving", "schedule.stairs": 2000}
    assert refused(stairs | layers) == ["schedule.stairs=2000 is more than training.steps=1000"]
    assert refused({"schedule.kind": "halving", "schedule.stairs": 2000, "model.architecture": "elmo",
                    "objective.kind": "bidirectional"}) == refused(stairs)  # fmt: skip


def test_problems_of_a_schedule_are_not_repeated_for_parts_of_a_model():
    def problems(flat, architecture):
        yield f"schedule.kind={flat['schedule.kind']} is not for {architecture}"

    with registered_kinds((Kind("schedule.kind", "picky", "never right", problems=problems), constant)):
        assert refused({
            "schedule.kind": "picky", "model.architecture": "encoder_decoder", "objective.kind": "prefix",
            "model.encoder.num_layers": 2,
        }) == ["schedule.kind=picky is not for encoder_decoder"]  # fmt: skip


def test_only_traced_fields_of_added_kinds_are_program_arguments():
    def key(changes):
        return configs.program_key(flatten(resolve(GROUP | OWN | {"schedule.kind": "halving"}, changes)))

    traced = {"optimizer.momentum", "optimizer.group.a.momentum", "schedule.halvings"}
    paths = {*traced, "optimizer.nesterov", "optimizer.group.a.nesterov", "optimizer.damping", "schedule.stairs"}
    assert {path for path in paths if configs.is_traced(path)} == traced
    assert key({}) == key({"optimizer.group.a.momentum": 0.3, "schedule.halvings": 1})
    assert key({}) != key({"schedule.stairs": 2})
    assert key({}) != key({"optimizer.group.a.nesterov": True})


@pytest.mark.parametrize(
    "field",
    [
        Field("optimizer.rounding", "up", str, "no number"),
        Field("optimizer.nesterov", False, bool, "no number"),
        Field("optimizer.damping", "auto", float, "derived", auto="from another"),
        Field("model.norm.power", 2.0, float, "layers read the config"),
    ],
    ids=lambda field: field.path,
)
def test_fields_that_cannot_be_traced_are_refused(field):
    with pytest.raises(ValueError, match=re.escape(f"{field.path} cannot be traced")):
        Field(field.path, field.default, field.kind, field.meaning, auto=field.auto, traced=True)


def test_a_field_that_every_choice_reads_has_no_condition(monkeypatch):
    assert has_condition(BY_PATH["optimizer.beta1"])
    assert has_condition(BY_PATH["schedule.final_fraction"])
    assert has_condition(BY_PATH["data.hub.split"])
    assert not has_condition(BY_PATH["optimizer.learning_rate"])
    for name in set(OPTIMIZER_KINDS.choices) - set(OPTIMIZER_KINDS.having("moments")):
        assert has_condition(BY_PATH["optimizer.beta1"])
        averaging = Kind("optimizer.kind", name, "now it reads them", frozenset({"moments", "epsilon"}))
        monkeypatch.setitem(OPTIMIZER_KINDS.by_name, name, averaging)
    assert not has_condition(BY_PATH["optimizer.beta1"])
    assert list(OPTIMIZER_KINDS.having("moments")) == list(OPTIMIZER_KINDS.choices)
