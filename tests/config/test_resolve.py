"""Configs: types, derived values, refusals and identity."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo import config as configs
from zoo.config.field_values import checked_value
from zoo.data.labelled.task_files import LABELLED_TABLES
from zoo.data.sources.source import SOURCES
from zoo.errors import ConfigError


def resolve(**overrides):
    return configs.resolve(
        configs.override(configs.default(), {key.replace("__", "."): value for key, value in overrides.items()})
    )


def problems(overrides):
    with pytest.raises(ConfigError) as caught:
        configs.resolve(configs.override(configs.default(), overrides))
    assert caught.value.exit_code == 2
    assert all("\n" not in problem for problem in caught.value.problems)
    return caught.value.problems


def test_default_is_valid_and_resolving_twice_changes_nothing():
    resolved = configs.resolve(configs.default())
    assert configs.resolve(resolved) == resolved
    assert configs.resolve(configs.to_plain(resolved)) == resolved
    assert json.loads(json.dumps(configs.to_plain(resolved)))["model"]["attention"]["head_dim"] == 64


@pytest.mark.parametrize(
    ("steps", "batches", "every", "number"), [(1250, 0, 157, 8), (4010, 100, 201, 20), (3, 40, 1, 3)]
)
def test_evaluations_are_spread_so_that_the_last_is_that_of_the_last_step(steps, batches, every, number):
    resolved = resolve(training__steps=steps, training__eval_batches=batches)
    assert resolved.training.eval_every == every
    # Beside that of step 0.
    assert len({*range(every, steps + 1, every), steps}) == number


def test_auto_is_derived():
    resolved = resolve(model__dim=96, model__attention__num_heads=6, model__attention__num_kv_heads=2)
    assert (resolved.model.attention.head_dim, resolved.model.ffn.hidden_dim, resolved.model.vocab_size) == (
        16,
        384,
        257,
    )
    assert resolved.model.attention.scale == 0.25
    assert resolved.model.position.max_length == resolved.data.sequence_length


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"model.norm.kind": "rms"}, ["model.norm.kind", "rmsnorm", "did you mean"]),
        ({"model.dim": "-3"}, ["model.dim=-3", "at least 1"]),
        ({"model.dim": "abc"}, ["model.dim='abc'", "whole number"]),
        ({"model.dim": "1.5"}, ["model.dim='1.5'", "whole number"]),
        ({"model.dim": True}, ["model.dim=True", "whole number"]),
        ({"optimizer.learning_rate": "nan"}, ["optimizer.learning_rate", "finite"]),
        ({"optimizer.learning_rate": "1e300"}, ["optimizer.learning_rate", "fits in 32 bits"]),
        ({"optimizer.learning_rate": "0"}, ["above 0"]),
        ({"model.residual": "maybe"}, ["model.residual='maybe'", "true or false"]),
        ({"model.dropout": "1.0"}, ["at most 0.99"]),
        ({"model.position.scaling.short_factors": "1,x"}, ["scaling.short_factors", "comma-separated numbers"]),
        ({"model.position.scaling.long_factors": (1.0, float("nan"))}, ["scaling.long_factors", "finite numbers"]),
        ({"training.eval_lengths": "12,x"}, ["training.eval_lengths", "comma-separated integers"]),
        ({"model.attention.num_heads": 3}, ["model.dim=256", "num_heads=3", "head_dim"]),
        ({"model.attention.num_kv_heads": 3}, ["num_heads=4", "num_kv_heads=3"]),
        ({"model.position.kind": "rope", "model.attention.head_dim": 5}, ["RoPE", "not an even number"]),
        ({"model.position.kind": "rope", "model.position.fraction": 0.3}, ["RoPE", "fraction"]),
        ({"model.position.kind": "sinusoidal", "model.dim": 5, "model.attention.num_heads": 1}, ["sinusoidal", "even"]),
        ({"model.position.max_length": 64}, ["max_length=64", "sequence_length=128"]),
        ({"training.accumulation_steps": 3}, ["batch_size=16", "accumulation_steps=3"]),
        ({"mesh.data": 3}, ["batch_size=16", "3 devices"]),
        ({"mesh.tensor": 8, "model.attention.num_heads": 4}, ["num_heads=4", "mesh.tensor=8"]),
        ({"mesh.data": 0}, ["mesh.data=0"]),
        ({"mesh.fsdp": 0}, ["mesh.fsdp=0"]),
        ({"mesh.expert": 2}, ["mesh.expert=2 divides experts, and there are none"]),
        (
            {"model.ffn.kind": "moe", "model.ffn.experts.number": 6, "mesh.expert": 4},
            ["model.ffn.experts.number=6 is not divisible by mesh.expert=4", "use 8 experts"],
        ),
        (
            {"model.ffn.kind": "moe", "model.ffn.experts.group_score": "max"},
            ["group_score=max has no effect: all experts"],
        ),
        (
            {"model.ffn.kind": "none", "model.norm.placement": "hyper"},
            ["model.ffn.kind=none: model.norm.placement=hyper"],
        ),
        (
            {"model.ffn.kind": "moe", "mesh.expert": 4, "data.batch_size": 6},
            ["batch_size=6", "4 devices of mesh.data x mesh.fsdp x mesh.expert"],
        ),
        ({"schedule.warmup_steps": 2000}, ["warmup_steps=2000", "steps=1000"]),
        ({"model.position.theta": 5.0}, ["theta", "no effect", "rope"]),
        ({"model.norm.kind": "none", "model.norm.placement": "post"}, ["placement", "no effect"]),
        ({"model.norm.kind": "rmsnorm", "model.norm.bias": False}, ["model.norm.bias", "no effect"]),
        ({"model.init.kernel": "xavier_uniform", "model.init.std": 0.1}, ["init.std", "no effect"]),
        ({"model.attention.implementation": "cudnn"}, ["cudnn", "bfloat16"]),
        (
            {"model.attention.implementation": "cudnn", "model.dtype": "bfloat16", "model.attention.softcap": 5.0},
            ["cudnn", "softcap=5", "einsum"],
        ),
        ({"model.attention.implementation": "xla", "model.attention.dropout": 0.1}, ["xla", "dropout"]),
        ({"model.vocab_size": 100}, ["vocab_size=100", "257"]),
        (
            {"model.attention.implementation": "cudnn", "model.dtype": "bfloat16", "model.attention.head_dim": 264},
            ["head_dim", "multiple of 8", "256", "264"],
        ),
        ({"data.document_separator": "x"}, ["document_separator", "stdlib"]),
        ({"model.elmo.filters": (1, 2)}, ["model.elmo.filters=1,2 has no effect", "leave it at 1,"]),
        ({"data.labels": ("a", "b")}, ["data.labels=a,b has no effect", "leave it empty"]),
        ({"model.norm.kind": [[1]]}, ["model.norm.kind", "is not one of"]),
        ({"model.num_layers": 10**6}, ["model.num_layers=1000000 must be at most 10000"]),
        ({"model.vocab_size": 2**31}, ["model.vocab_size=2147483648 must be at most 16777216"]),
        ({"training.eval_lengths": (8, 2**31)}, ["training.eval_lengths=2147483648 must be at most 2147483647"]),
        ({"model.dim": 10**5000}, ["model.dim=an integer of 16610 bits must be at most 2147483647"]),
    ],
)
def test_a_bad_config_is_refused_in_one_line(overrides, words):
    lines = problems(overrides)
    assert len(lines) == 1
    assert all(word in lines[0] for word in words), lines[0]


def test_every_integer_has_an_upper_bound():
    # Other rules may refuse the value too; the bound of the field is reported first.
    for field in configs.FIELDS:
        if field.kind is int:
            assert f"{field.path}={10**18} must be at most" in problems({field.path: 10**18})[0]


@pytest.mark.parametrize(
    "overrides",
    [
        {"model.norm.kind": "x" * 10**6},
        {"model.dim": "x" * 10**6},
        {"model.dim": 10**1000},
        {"model.attention.num_heads": [1] * 10**5},
        {"data.tokenizer.path": "x" * 10**6},
        {"model." + "x" * 10**6: 1},
    ],
)
def test_a_line_quotes_at_most_200_characters_of_a_value(overrides):
    with pytest.raises(ConfigError) as caught:
        configs.resolve(configs.override(configs.default(), overrides))
    assert max(map(len, caught.value.problems)) < 600


def test_a_line_names_at_most_twenty_choices():
    field = configs.field_at("optimizer.kind")
    for number, more in ((20, False), (21, True)):
        wide = dataclasses.replace(field, choices={f"choice{index}": "" for index in range(number)})
        line = checked_value(wide, "x")[1]
        assert (", choice19" in line, " and 1 more" in line, "choice20" in line) == (True, more, False)


def test_every_problem_is_reported_at_once():
    lines = problems({"model.norm.kind": "rms", "model.dim": -3, "training.steps": "x"})
    assert [line.split("=")[0] for line in lines] == ["model.dim", "model.norm.kind", "training.steps"]
    assert (
        len(problems({"model.attention.num_heads": 3, "schedule.warmup_steps": 5000, "model.position.theta": 3.0})) == 3
    )


def test_unknown_fields_are_refused_with_suggestions():
    with pytest.raises(ConfigError) as caught:
        configs.override(configs.default(), {"model.norm.knd": 1, "model.num_heads": 1, "zzz": 1})
    lines = caught.value.problems
    assert 'did you mean "model.norm.kind"' in lines[0]
    assert 'did you mean "model.attention.num_heads"' in lines[1]
    assert lines[2] == "unknown field zzz"
    with pytest.raises(ConfigError, match=r"unknown field model\.nrm"):
        configs.resolve({"model": {"nrm": 1}})


def test_wrong_values_are_reported_along_with_unknown_fields():
    with pytest.raises(ConfigError) as caught:
        configs.override(configs.default(), {"zzz": 1, "model.dim": "wide", "optimizer.learning_rate": "-1"})
    assert caught.value.problems == [
        "unknown field zzz",
        "model.dim='wide': expected a whole number",
        "optimizer.learning_rate=-1.0 must be above 0",
    ]


def test_values_are_parsed_from_strings():
    resolved = resolve(
        training__steps="1e4",
        training__eval_lengths="256,512",
        model__residual="False",
        optimizer__learning_rate="3e-4",
    )
    assert (resolved.training.steps, tuple(resolved.training.eval_lengths), resolved.model.residual) == (
        10000,
        (256, 512),
        False,
    )
    assert resolve(model__attention__head_dim="auto").model.attention.head_dim == 64


def test_changing_a_choice_drops_the_fields_set_for_it():
    gpt = configs.override(
        configs.default(), {"model.position.max_length": 512, "model.ffn.gelu_approximation": "tanh"}
    )
    rope = configs.resolve(configs.override(gpt, {"model.position.kind": "rope", "model.ffn.kind": "swiglu"}))
    assert rope.model.position.max_length == configs.AUTO
    kept = configs.resolve(configs.override(gpt, {"model.position.kind": "learned", "model.ffn.kind": "geglu"}))
    assert (kept.model.position.max_length, kept.model.ffn.gelu_approximation) == (512, "tanh")
    # A field set together with the choice is refused, not dropped silently.
    with pytest.raises(ConfigError, match="no effect"):
        configs.resolve(configs.override(gpt, {"model.position.kind": "rope", "model.position.max_length": 512}))


def test_vocabulary_size_agrees_with_the_data_package():
    from zoo import data

    for changes in ({}, {"data.tokenizer.kind": "bpe", "data.tokenizer.vocab_size": 300}):
        resolved = configs.resolve(configs.override(configs.default(), changes))
        assert resolved.model.vocab_size == data.vocabulary_size(resolved)


def test_identity_depends_only_on_fields_that_change_the_result():
    base = configs.resolve(configs.default())
    for path in configs.NOT_RESULT_RELEVANT:
        default = configs.BY_PATH[path].default
        source = {"data.hub.streaming": "hf:x", "data.hub.folder": "tfds:x"}.get(path, "stdlib")
        translation = {
            "model.architecture": "encoder_decoder",
            "objective.kind": "translation",
            "training.eval_every": 1,
        }
        needs = {"data.source": source} | (translation if path == "training.translate_every" else {})
        needs |= {"model.ffn.kind": "moe"} if path == "mesh.expert" else {}
        changed = {"": "x", 1: 2, configs.AUTO: () if path == "training.trackers" else 1}.get(
            default, not default if isinstance(default, bool) else 1
        )
        one, other = (needs | {path: value} for value in (default, changed))
        one, other = (configs.resolve(configs.override(base, changes)) for changes in (one, other))
        assert configs.identity(other) == configs.identity(one) or path == "mesh.data"
    assert configs.identity(resolve(seed=1)) != configs.identity(base)
    assert configs.identity(resolve(model__norm__kind="rmsnorm")) != configs.identity(base)
    # Writing out a derived value does not change the identity.
    assert configs.identity(resolve(model__attention__head_dim=64)) == configs.identity(base)


def test_field_table_is_consistent():
    for field in configs.FIELDS:
        assert field.meaning
        assert field.default != configs.AUTO or field.auto
        if field.when:
            chooser = configs.BY_PATH[field.when[0]]
            names = {*SOURCES, *LABELLED_TABLES, "mixture"} if chooser.path == "data.source" else chooser.choices
            assert set(field.when[1]) <= ({True, False} if chooser.kind is bool else set(names))
    assert set(configs.NOT_RESULT_RELEVANT) <= set(configs.BY_PATH)


@given(
    st.dictionaries(
        st.sampled_from([field.path for field in configs.FIELDS]),
        st.one_of(st.integers(-5, 5000), st.floats(), st.text(max_size=5), st.booleans(), st.none()),
        max_size=4,
    )
)
def test_any_override_resolves_or_is_refused_in_plain_lines(overrides):
    problems = None
    try:
        configs.resolve(configs.override(configs.default(), overrides))
    except ConfigError as error:
        problems = error.problems
    names = [path.rsplit(".", 1)[-1] for path in configs.BY_PATH]
    assert problems is None or (problems and all(any(name in line for name in names) for line in problems))


def test_a_dropout_generator_without_dropout_is_refused():
    with pytest.raises(
        ConfigError, match=r"dropout_generator=rbg has no effect: no dropout rate, jitter or noise of the model"
    ):
        resolve(training__dropout_generator="rbg")
    assert resolve(training__dropout_generator="rbg", model__attention__dropout=0.1)
    assert resolve(training__dropout_generator="rbg", model__ffn__kind="moe", model__ffn__experts__jitter=0.1)
    sides = {"model.architecture": "encoder_decoder", "objective.kind": "span", "model.decoder.dropout": 0.1}
    assert configs.resolve(configs.override(configs.default(), sides | {"training.dropout_generator": "rbg"}))


@pytest.mark.parametrize(("name", "identity"), [("gpt2:tiny", "bca54790e2ebe0e2"), ("t5:tiny", "cfb9ef962ae143eb")])
def test_new_fields_do_not_change_the_identity_of_existing_runs(name, identity):
    # Sweeps find their runs by identity, so a field that is added later needs `Field.added`.
    assert configs.identity(configs.resolve(configs.load(name))) == identity


def test_experts_are_divided_in_the_layers_that_have_them():
    pattern = {"model__layers__pattern": "a,b", "mesh__expert": 4, "model__layers__kinds__b__ffn__kind": "gelu"}
    sparse = {"kind": "moe", "experts__kind": "swiglu", "experts__number": 8}
    kind = {f"model__layers__kinds__a__ffn__{name}": value for name, value in sparse.items()}
    resolve(**pattern, **kind, model__ffn__bias=False)
    with pytest.raises(ConfigError, match=r"kinds\.a\.ffn\.experts\.number=6 is not divisible by mesh\.expert=4"):
        resolve(**pattern, **kind | {"model__layers__kinds__a__ffn__experts__number": 6}, model__ffn__bias=False)
