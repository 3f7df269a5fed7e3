"""Scopes: config fields of one side of an encoder-decoder or of one kind of layers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo import config as configs
from zoo.errors import ConfigError
from zoo.nested import flatten, unflatten

TWO_SIDES = {"model.architecture": "encoder_decoder", "objective.kind": "prefix"}
KINDS = {
    "model.layers.pattern": ("local", "global"),
    "model.layers.kinds.local.attention.window": 8,
    "model.layers.kinds.global.position.kind": "none",
    "model.position.kind": "rope",
}


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


@pytest.mark.parametrize(
    ("path", "suggestion"),
    [
        ("model.decoder.num_layer", "model.decoder.num_layers"),
        ("model.encoder.attention.windw", "model.encoder.attention.window"),
        ("model.encoder.window", "model.encoder.attention.window"),
        ("model.layers.kinds.local.attention.windows", "model.layers.kinds.local.attention.window"),
        ("model.layers.kinds.local.window", "model.layers.kinds.local.attention.window"),
        ("model.layers.patern", "model.layers.pattern"),
        # Fields that all parts of a model share are not fields of a scope.
        ("model.decoder.dim", None),
        ("model.layers.kinds.local.norm.kind", None),
        ("model.decoder.vocab_size", None),
        ("model.layers.kinds.local", None),
    ],
)
def test_unknown_fields_of_a_scope_are_refused_with_suggestions(path, suggestion):
    with pytest.raises(ConfigError) as caught:
        configs.override(configs.default(), {path: 1})
    (line,) = caught.value.problems
    assert line.startswith(f"unknown field {path}")
    if suggestion:
        assert line.endswith(f'(did you mean "{suggestion}"?)')
    with pytest.raises(ConfigError, match="unknown field"):
        configs.resolve(unflatten({path: 1}))


def test_known_paths_of_a_scope_are_fields_without_auto():
    for example in ("model.decoder.x", "model.encoder.x", "model.layers.kinds.any.x"):
        paths = configs.known_paths(example)
        assert len(paths) > 30
        assert all(configs.field_at(path).path == path and not configs.field_at(path).auto for path in paths)
    assert refused(TWO_SIDES, {"model.decoder.attention.head_dim": "auto"}) == [
        "model.decoder.attention.head_dim='auto': expected a whole number"
    ]


def test_derivable_fields_are_derivable_in_every_scope():
    assert configs.derivable("model.attention.head_dim")
    assert configs.derivable("model.decoder.attention.head_dim")
    assert configs.derivable("model.layers.kinds.any.attention.head_dim")
    assert not configs.derivable("model.decoder.num_layers")
    assert not configs.derivable("model.attention.window")
    assert not configs.derivable("no.such.field")


def test_a_side_combines_its_own_fields_with_those_of_the_model():
    model = resolve(
        TWO_SIDES, {"model.decoder.num_layers": 1, "model.encoder.norm.kind": "rmsnorm", "model.dropout": 0.2}
    ).model
    encoder, decoder = configs.side(model, "encoder"), configs.side(model, "decoder")
    assert (encoder.architecture, decoder.architecture) == ("encoder", "decoder")
    assert (encoder.num_layers, decoder.num_layers) == (4, 1)
    assert (encoder.norm.kind, decoder.norm.kind) == ("rmsnorm", "layernorm")
    assert encoder.dropout == decoder.dropout == 0.2
    assert "decoder" not in encoder


def test_a_kind_of_layers_combines_its_own_fields_with_those_of_the_model():
    model = resolve(KINDS).model
    local, global_ = configs.layer_kind(model, "local"), configs.layer_kind(model, "global")
    assert (local.attention.window, global_.attention.window) == (8, 0)
    assert (local.position.kind, global_.position.kind) == ("rope", "none")


def test_auto_values_are_derived_in_each_scope():
    resolved = resolve(TWO_SIDES, {"model.decoder.attention.num_heads": 8, "model.decoder.position.kind": "rope"})
    decoder, encoder = configs.side(resolved.model, "decoder"), configs.side(resolved.model, "encoder")
    assert (decoder.attention.head_dim, decoder.attention.num_kv_heads, decoder.attention.scale) == (32, 8, 32**-0.5)
    assert decoder.position.layout == "half"
    assert (encoder.attention.head_dim, encoder.attention.num_kv_heads, encoder.attention.scale) == (64, 4, 64**-0.5)


@pytest.mark.parametrize(
    "changes",
    [
        KINDS,
        TWO_SIDES
        | {
            "model.decoder.attention.num_heads": 8,
            "model.encoder.attention.window": 5,
            "model.encoder.position.kind": "sinusoidal",
        },
        TWO_SIDES | {"model.position.kind": "rope", "model.decoder.position.kind": "learned"},
        {"model.layers.pattern": ("a",), "model.layers.kinds.a.attention.kind": "performer"},
    ],
    ids=str,
)
def test_resolving_scopes_again_changes_nothing(changes, tmp_path):
    resolved = resolve(changes)
    assert configs.resolve(resolved) == resolved
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configs.to_plain(resolved)))
    reloaded = configs.resolve(configs.load(str(path)))
    assert reloaded == resolved
    assert configs.identity(reloaded) == configs.identity(resolved)
    assert isinstance(reloaded.model.layers.pattern, tuple)


def test_scopes_are_part_of_the_identity():
    same_sides = resolve(TWO_SIDES)
    assert configs.identity(resolve(TWO_SIDES, {"model.decoder.num_layers": 2})) != configs.identity(same_sides)
    one, other = (resolve(KINDS, {"model.layers.kinds.local.attention.window": window}) for window in (8, 9))
    assert configs.identity(one) != configs.identity(other)
    assert configs.difference(one, other) == {"model.layers.kinds.local.attention.window": (8, 9)}
    assert configs.difference(same_sides, resolve(TWO_SIDES, {"model.decoder.num_layers": 2})) == {
        "model.decoder.num_layers": (None, 2)
    }


PLACED = {"model.layers.pattern": ("a", "b"), "model.layers.kinds.a.residual": True}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.layers.kinds.b.norm.placement": "post"}, "placement=post cannot stand beside model.norm.placement=pre: post has"),
        ({"model.layers.kinds.b.norm.placement": "hyper"}, "placement=hyper cannot stand beside model.norm.placement=pre: hyper has"),
        (
            {"model.norm.placement": "resi_dual", "model.layers.kinds.b.norm.placement": "pre"},
            "placement=pre cannot stand beside model.norm.placement=resi_dual: resi_dual has",
        ),
        (
            {"model.parallel": "own_norms", "model.layers.kinds.b.norm.placement": "reordered"},
            "model.parallel=own_norms is defined for pre-norm; model.norm.placement is reordered",
        ),
        (
            {"model.layers.kinds.b.norm.placement": "reordered", "model.layers.kinds.b.norm.layerscale_start": 0.5},
            "layerscale_start=0.5 has no effect",
        ),
        (
            {"model.layers.kinds.b.norm.placement": "reordered", "model.parametrization": "completep", "model.base_dim": 8,
             "model.base_num_layers": 1},
            "completep is defined for model.norm.placement=pre, which is reordered",
        ),
    ],
)  # fmt: skip
def test_placements_that_a_stack_cannot_mix_are_refused(changes, words):
    assert any(words in line for line in refused(PLACED, {"model.layers.kinds.b.residual": True}, changes))


def test_kinds_of_layers_may_place_norms_differently():
    found = resolve(PLACED, {"model.layers.kinds.b.norm.placement": "reordered"}).model
    placements = [configs.layer_kind(found, name).norm.placement for name in "ab"]
    assert placements == ["pre", "reordered"]


def test_layer_patterns_are_parsed_from_the_command_line():
    flags = configs.parse_overrides(
        [
            "--config.model.layers.pattern=local, local,global",
            "--config.model.layers.kinds.local.residual=False",
            "--config.model.layers.kinds.global.attention.window",
            "4",
        ]
    )
    model = resolve(flags).model
    assert model.layers.pattern == ("local", "local", "global")
    assert model.layers.kinds.local.residual is False
    assert configs.layer_kind(model, "global").attention.window == 4
    for text in ("()", ""):
        assert resolve({"model.layers.pattern": text}).model.layers.pattern == ()
    assert resolve({"model.layers.pattern": ["a"], "model.layers.kinds.a.residual": True}).model.layers.pattern == (
        "a",
    )


@pytest.mark.parametrize("value", [3, True, None, (1, 2), ("a", 1)])
def test_bad_layer_patterns_are_refused(value):
    (line,) = refused({"model.layers.pattern": value})
    assert line == f"model.layers.pattern={value!r}: expected comma-separated names"


def test_changing_the_pattern_drops_kinds_that_it_does_not_name():
    only_global = changed(KINDS, {"model.layers.pattern": ("global",)})
    assert configs.resolve(only_global).model.layers.kinds.to_dict() == {"global": {"position": {"kind": "none"}}}
    assert "kinds" not in resolve(KINDS, {"model.layers.pattern": ()}).model.layers
    # A field set together with the pattern is refused, not dropped silently.
    (line,) = refused(KINDS, {"model.layers.pattern": ("global",), "model.layers.kinds.local.attention.window": 4})
    assert "model.layers.kinds.local has no effect" in line


def test_changing_the_architecture_drops_the_sides():
    sides = TWO_SIDES | {"model.decoder.num_layers": 2}
    decoder = resolve(sides, {"model.architecture": "decoder", "objective.kind": "causal"})
    assert "decoder" not in decoder.model
    assert resolve(sides, {"model.architecture": "encoder_decoder"}).model.decoder.num_layers == 2
    (line,) = refused({"model.architecture": "decoder", "model.decoder.num_layers": 2})
    assert "model.decoder is read only when model.architecture is encoder_decoder" in line


def test_changing_a_choice_drops_the_fields_that_a_scope_set_for_it():
    rope = KINDS | {"model.layers.kinds.local.position.theta": 500.0}
    assert "position" not in resolve(rope, {"model.position.kind": "alibi"}).model.layers.kinds.local
    kinds = resolve(rope, {"model.layers.kinds.local.position.kind": "alibi"}).model.layers.kinds
    assert kinds.local.position.to_dict() == {"kind": "alibi"}
    # A choice made in the scope itself is kept, with the fields set for it.
    own = rope | {"model.layers.kinds.local.position.kind": "rope"}
    assert resolve(own, {"model.position.kind": "alibi"}).model.layers.kinds.local.position.theta == 500.0
    (line,) = refused(rope, {"model.position.kind": "alibi", "model.layers.kinds.local.position.theta": 500.0})
    assert line.startswith("model.layers.kinds.local.position.theta=500.0 has no effect")


ENCODER = {"model.architecture": "encoder", "objective.kind": "masked"}
KIND = {"model.layers.pattern": ("a",), "model.layers.kinds.a.residual": True}
SCOPED = [
    (TWO_SIDES, "model.decoder.x"),
    (TWO_SIDES, "model.encoder.x"),
    (KIND, "model.layers.kinds.a.x"),
    (KIND | ENCODER, "model.layers.kinds.a.x"),
    (ENCODER, "model.encoder.x"),
]


def values(path):
    field = configs.field_at(path)
    if field.choices:
        return st.sampled_from(list(field.choices))
    if field.kind is bool:
        return st.booleans()
    return st.sampled_from([0.0, 0.1, 0.5, 1.0, 2]) if field.kind is float else st.sampled_from([-1, 0, 1, 2, 4, 8, 9])


def overrides_in(base_and_example):
    base, example = base_and_example
    paths = configs.known_paths(example)
    # Fields that are always read are drawn more often than those that need a choice, or hardly any
    # config would be valid.
    path = st.one_of(
        st.sampled_from([path for path in paths if not configs.field_at(path).when]), st.sampled_from(paths)
    )
    pairs = st.lists(path.flatmap(lambda path: st.tuples(st.just(path), values(path))), max_size=3)
    return st.tuples(st.just(base), pairs.map(dict))


@given(st.sampled_from(SCOPED).flatmap(overrides_in))
def test_any_scope_resolves_stably_or_is_refused_in_plain_lines(drawn):
    base, overrides = drawn
    resolved, problems = None, ["no problem in model."]
    try:
        resolved = resolve(base | overrides)
    except ConfigError as error:
        problems = error.problems
    assert problems
    assert all("\n" not in line and "model." in line for line in problems)
    if resolved is not None:
        assert configs.resolve(resolved) == resolved
        assert configs.resolve(json.loads(json.dumps(configs.to_plain(resolved)))) == resolved
        assert overrides.items() <= flatten(resolved).items()


def test_kinds_of_equal_numbers_of_other_types_are_kept_apart():
    # A kind is made once for each of its settings, and 8 equals 8.0.
    model = json.loads(json.dumps(resolve(KINDS).to_dict()))["model"]
    for window in (8, 8.0):
        model["layers"]["kinds"]["local"]["attention"]["window"] = window
        assert type(configs.layer_kind(model, "local").attention.window) is type(window)
