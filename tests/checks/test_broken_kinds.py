"""Each property fails for a kind that lacks it, and says what is wrong."""

import jax
import pytest

from tests.checks.broken_kinds import BROKEN
from tests.support.added_kinds import registered_kinds
from tests.support.building import by_default
from zoo.checks import PROPERTIES, Subject
from zoo.checks.check import FAIL, few_optimisations, outcome_of
from zoo.config.kinds import KIND_TABLES

# What the line about each broken kind says.
REASONS = {
    "wide": "x in bfloat16 comes out in float32",
    "doubled": "the rate of an update has the shape [1]",
    "looks_ahead": "depends on a later token",
    "looks_ahead_quietly": "depends on a later token",
    "mixes_rows": "depends on another row",
    "mixes_rows_in_training": "slot 0 of row 1: in training the output changes with it",
    "looks_back": "depends on another document",
    "looks_back_uncached": "differ from a pass over all tokens",
    "sum_of_all": "see `take` of the cache entry",
    "unused": "the gradient is 0 in stack/layers/ffn/factor",
    "drawn": "the loss differs",
    "drawn_again": "the loss differs",
    "cancels": "differs from that in float32 by",
    "adds_nothing": "nothing_term: its value is 0; layers add it by context.add_loss",
    "adds_constant": "constant_term: it has no gradient",
    "mixes_rows_in_parts": "of update 1 differs",
    "adds_product": "in 4 parts it is the mean of theirs; without its weight two updates agree",
    "drawn_for_each": "member 0: ",
    "drawn_after_a_restart": "has other bits; the program that is built again is another one",
    "drawn_on_each": "of update 1 differs",
    "squares": "the layer differs from the function",
}
CASES = [(name, each[0].name) for name, kinds in BROKEN.items() for each in kinds]
# These compile training steps.
STEPS = ("accumulation", "population", "resume", "8 devices")
KEPT = [case for case in CASES if case[0] not in STEPS and case[1] not in ("drawn_again", "looks_ahead_quietly")]


def test_every_property_has_a_kind_that_lacks_it():
    assert list(BROKEN) == list(PROPERTIES)


@pytest.mark.parametrize(
    ("name", "kind"), by_default(KEPT, CASES, pytest.mark.promise(reason="training steps are compiled"))
)
def test_property_fails_for_a_kind_that_lacks_it(name, kind, monkeypatch):
    if name == "8 devices":
        # What a device computes does not matter here, and this process has one.
        monkeypatch.setattr("zoo.checks.training_steps.DEVICES", len(jax.devices()))
        monkeypatch.setattr("zoo.checks.training_steps.MESH", {})
    ((broken, code),) = [each for each in BROKEN[name] if each[0].name == kind]
    with registered_kinds((broken, code)), few_optimisations():
        found = outcome_of(name, Subject.of(KIND_TABLES[broken.path].by_name[kind]))
    assert found.state == FAIL, found
    assert REASONS[kind] in found.reason
