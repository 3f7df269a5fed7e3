"""Tables of kinds: what they accept, and that the kinds of zoo pass the checks of plug-ins."""

import re

import pytest

from zoo.cli.main import main
from zoo.config.kinds import FEED_FORWARD_KINDS, KIND_TABLES, NORM_KINDS, OBJECTIVE_KINDS, Kind, KindTable
from zoo.plugin.registrations import DERIVED, KindRegistration, derived_traits

BUILT_IN = [kind for table in KIND_TABLES.values() for kind in table.by_name.values()]
# The checks that kinds of zoo do not pass: objectives of plug-ins score tokens of running text, and
# their fields are in one group.
TASK = "does not define targets$|an objective of a plug-in predicts tokens of running text$"
ONLY_OF_PLUGINS = {f"objective.kind={name}": TASK for name in OBJECTIVE_KINDS.having("examples")} | {
    "model.position.kind=rope": r"^its field 'model.position.scaling.\w+' must be called model.position.NAME$",
    # It consists of feed-forward layers and is none.
    "model.ffn.kind=moe": r"must be a subclass of FeedForward|^its field 'model.ffn.experts.\w+' must be called "
    r"model.ffn.NAME$|^the term '\w+' of the loss exists already",
}
TRAITS = {"gated": "it has gates", "sparse": "units are off"}


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (Kind("a.kind", "x", "y", {"gatd"}), "a.kind=x: unknown trait 'gatd' (did you mean \"gated\"?)"),
        (Kind("a.kind", "x", "y", {"window"}), "a.kind=x: unknown trait 'window'; it is one of gated, sparse"),
        (Kind("a.kind", "gelu", "y"), "a.kind=gelu exists already; choose another name"),
        (Kind("a.kind", "X", "y"), "a.kind=X: a name consists of lower-case letters, digits and _, e.g. my_variant"),
        (Kind("a.kind", "x", " "), "a.kind=x: its meaning is empty; write the equation, and the paper, in one line"),
    ],
)
def test_kinds_are_refused_by_their_table(kind, line):
    first = Kind("a.kind", "gelu", "gelu(x)", {"gated"})
    table = KindTable("a.kind", TRAITS, [first])
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        table.add(kind)
    with pytest.raises(ValueError, match=re.escape(line)):
        KindTable("a.kind", TRAITS, [first, kind])
    assert list(table.by_name) == ["gelu"]


def test_only_declared_traits_can_be_asked_for():
    with pytest.raises(ValueError, match=r"""^model.ffn.kind: unknown trait 'gatd' \(did you mean "gated"\?\)$"""):
        FEED_FORWARD_KINDS.having("gatd")
    with pytest.raises(ValueError, match=r"^model.norm.kind: unknown trait 'xyz'; it is one of normalises, "):
        NORM_KINDS.when("xyz")
    assert list(FEED_FORWARD_KINDS.having("gated")) == ["swiglu", "geglu", "reglu", "swiglu_clamped"]


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: f"{kind.path}={kind.name}")
def test_kinds_of_zoo_pass_the_checks_of_plugins(kind):
    label = f"{kind.path}={kind.name}"
    problems = [line.removeprefix(f"{label}: ") for line in KindRegistration(kind).problems()]
    assert problems[0] == f"{label} exists already; choose another name"
    fields = {f"the field {field.path} exists already; choose another name" for field in kind.fields}
    others = [line for line in problems[1:] if line not in fields]
    assert all(re.search(ONLY_OF_PLUGINS.get(label, "^$"), line) for line in others), others


def test_kinds_have_the_traits_that_their_classes_show():
    for kind in BUILT_IN:
        assert derived_traits(kind) == kind.traits & DERIVED.get(kind.path, {}).keys(), kind.name


def test_every_trait_is_that_of_a_kind():
    for table in KIND_TABLES.values():
        assert {trait for kind in table.by_name.values() for trait in kind.traits} == table.traits.keys()
        assert all(table.traits.values())


def test_traits_of_a_field_are_described(capsys):
    assert main(["describe", "model.convolution.kind"]) == 0
    described = capsys.readouterr().out
    assert "        width  the number of tokens that it reads can be set: canon, primer\n" in described
