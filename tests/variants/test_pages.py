"""Every variant has a page with everything a page has, what the pages say is so, and docs/variants
is what the command writes.
"""

import re
from pathlib import Path

import pytest

from tests.parity.systems import SYSTEMS
from tests.stored_outputs import read
from zoo import config as configs
from zoo.config.scopes import scopes_in
from zoo.errors import ConfigError
from zoo.interop import resolve_like
from zoo.nested import flatten
from zoo.variants import PARITY, VARIANTS
from zoo.variants.__main__ import main
from zoo.variants.variant import BASELINES
from zoo.variants.variant_page import NAMED, SECTIONS, UNREAD, combined_changes, computes, sections

ROOT = Path(__file__).parents[2]
CONTROL = "a control"
# Choices of how a computation runs or starts, which change no equation.
NO_VARIANTS = {
    "model.dtype",
    "model.remat",
    "model.scan_layers",
    "model.attention.implementation",
    "model.init.kernel",
    "model.init.scale_residual",
}
# Fields of which "none" is a variant: a model without a part that models have.
KINDS_WITHOUT = {"model.norm.kind", "model.position.kind"}
FORMULA = re.compile(r"[=+*/^<|]|softmax|[Dd]ivide")
ALL = pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)


@ALL
def test_a_page_has_everything(variant):
    found = sections(variant)
    assert tuple(found) == SECTIONS
    for title, lines in found.items():
        assert lines, title
        assert all(line.strip() for line in lines), title
    assert FORMULA.search(computes(variant))
    assert any(
        NAMED.search(paper) or CONTROL in paper or "Team" in paper or "OpenAI" in paper for paper in found["Paper"]
    )
    assert variant.systems or variant.tests


def test_names_are_unique_and_can_be_typed():
    names = [variant.name for variant in VARIANTS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]+", name.replace("_", "-")) for name in names)


def test_every_choice_and_every_switch_of_a_model_is_a_variant():
    covered = {
        (path, value)
        for variant in VARIANTS
        for changes in (BASELINES[variant.baseline], variant.changes, variant.chosen)
        for path, value in changes.items()
    }
    for field in configs.FIELDS:
        if not field.path.startswith(("model.", "objective.kind")) or field.path in NO_VARIANTS:
            continue
        # To do without what a field adds is the baseline; where it is a kind of its own, it is a
        # variant.
        names = {name for name in field.choices or () if name != "none" or field.path in KINDS_WITHOUT}
        switched = {not field.default} if field.kind is bool else set()
        assert {(field.path, value) for value in names | switched} <= covered, field.path


def shows(config, changes):
    """Whether a resolved config, or one of its sides or kinds of layers, has all the changes of a
    variant that are about its parts.
    """
    flat = flatten(config)
    whole = {path: value for path, value in flat.items() if path in configs.BY_PATH}
    parts = [whole, *(whole | scope for scope in scopes_in(flat).values())]

    def same(part, path, value):
        if path in ("model.layers.pattern",):
            return len(set(part[path])) > 1
        if path.endswith("num_kv_heads"):
            heads = part["model.attention.num_heads"]
            return part[path] == 1 if value == 1 else 1 < part[path] < heads
        if path == "model.attention.window":
            return part[path] > 0
        if isinstance(value, float) and not isinstance(value, bool):
            return (
                part[path] != configs.BY_PATH[path].default if path != "model.attention.scale" else part[path] == value
            )
        if path.startswith("model.position.scaling.original_length") or path.endswith("global_tokens"):
            return part[path] > 0
        return part[path] == value

    # What names a kind of layer is told by the parts: some part has it, and some part has not.
    plain = {path: value for path, value in changes.items() if path in configs.BY_PATH}
    return any(all(same(part, path, value) for path, value in plain.items()) for part in parts)


@pytest.mark.parametrize(
    ("variant", "name"),
    [(variant, name) for variant in VARIANTS for name in variant.systems],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_system_has_the_variant_that_it_is_named_for(variant, name):
    system = next(system for system in SYSTEMS if system.name == name)
    assert system.reference == PARITY[name]
    config = resolve_like(
        system.reference, read(name)[0]["config"], {"data.tokenizer.kind": "characters", **system.overrides}
    )
    wanted = {**variant.changes, **variant.chosen}
    assert shows(config, wanted), wanted


@ALL
def test_the_tests_that_a_page_names_exist_and_use_its_tolerance(variant):
    for test in variant.tests:
        path, name = test.where.split("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"\ndef {name}(" in text
        body = text[text.index(f"\ndef {name}(") :].split("\n@pytest", 1)[0]
        written = {float(number) for number in re.findall(r"\d(?:\.\d+)?e-\d+|0\.\d+", text)}
        assert test.tolerance in written or (
            test.tolerance == 1e-5 and re.search(r"close\(|check\(|compare\(", body)
        ), test


def test_what_a_page_excludes_is_refused_and_the_rest_is_not():
    assert any(
        "alibi" in line
        for line in sections(next(v for v in VARIANTS if v.name == "performer"))["Cannot be combined with"]
    )
    by_name = {variant.name: variant for variant in VARIANTS}
    for one, other, refused in (
        ("performer", "sinks", True),
        ("rope", "qk-norm", False),
        ("deepnorm", "no-residual", True),
        ("parallel", "post", True),
        ("window", "alibi", False),
        ("global-tokens", "shaw", True),
    ):
        changes = combined_changes(by_name[one], by_name[other])
        named = any(
            other in line.split(":")[0].split(", ") for line in sections(by_name[one])["Cannot be combined with"]
        )
        assert named == refused
        config = configs.override(configs.default(), changes | {"model.vocab_size": 300})
        if refused:
            with pytest.raises(ConfigError):
                configs.resolve(config)
        else:
            configs.resolve(config)


def test_a_refusal_for_want_of_effect_is_recognised():
    with pytest.raises(ConfigError) as refused:
        configs.resolve(configs.override(configs.default(), {"model.position.theta": 5.0}))
    assert UNREAD.fullmatch(refused.value.problems[0])


def test_the_pages_in_the_repository_are_current_and_those_of_no_variant_are_removed(tmp_path):
    (tmp_path / "gone.md").write_text("old")
    main(str(tmp_path))
    here, written = (
        {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
        for folder in (ROOT / "docs" / "variants", tmp_path)
    )
    assert here == written
